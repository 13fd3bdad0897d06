"""Scripted policies of Sokoban."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plat_envs.games.grid import distance, join_moves
from plat_envs.games.sokoban_solver import State, moved, shortest_solution, steps

if TYPE_CHECKING:
    from plat_envs.games.sokoban import Sokoban


def push_through_walls(environment: Sokoban) -> str:
    """Return the next moves of a shortest solution as if the outer wall were the only one."""
    size = environment.config.size
    outer = frozenset(
        row * size + column
        for row in range(size)
        for column in range(size)
        if row in (0, size - 1) or column in (0, size - 1)
    )
    plan = shortest_solution(size, outer, environment.puzzle.targets, (environment.player, environment.boxes))
    moves = [move for move, _ in plan[: environment.config.actions_per_turn]]
    return join_moves(moves)


def push_nearer(environment: Sokoban) -> str:
    """Return moves, each the one that brings boxes nearest to targets, then the player to a box.

    Distances are rows plus columns. A box counts to its nearest target, and the player to the nearest box that is on
    none. Of equally good moves the first in the order up, down, left, right; moves into a wall are left out.
    """
    size, targets, walls = environment.config.size, environment.puzzle.targets, environment.puzzle.walls

    def cost(state: State) -> tuple[int, int]:
        player, boxes = state
        left = [box for box in boxes if box not in targets]
        to_target = sum(min(distance(size, box, target) for target in targets) for box in left)
        return to_target, min((distance(size, player, box) for box in left), default=0)

    state: State = (environment.player, environment.boxes)
    moves: list[str] = []
    while len(moves) < environment.config.actions_per_turn and state[1] != targets:
        after = {move: moved(state, step, walls) for move, step in steps(size).items()}
        after = {move: position for move, position in after.items() if position != state}
        if not after:
            break
        moves.append(min(after, key=lambda move: cost(after[move])))
        state = after[moves[-1]]
    return join_moves(moves)
