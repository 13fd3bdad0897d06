"""Scripted policies of FrozenLake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plat_envs.games.grid import distance, join_moves
from plat_envs.games.ways import neighbours, straight_way

if TYPE_CHECKING:
    from plat_envs.games.frozenlake import FrozenLake


def walk_straight(environment: FrozenLake) -> str:
    """Return the next moves straight to the goal, vertical ones first, as if there were no holes."""
    size, cell = environment.config.size, environment.position
    moves = []
    for to in straight_way(size, cell, environment.lake.goal)[: environment.config.actions_per_turn]:
        moves += [move for move, near in neighbours(size)[cell].items() if near == to]
        cell = to
    return join_moves(moves)


def step_nearer(environment: FrozenLake) -> str:
    """Return moves, each to the neighbouring cell without a hole that is nearest to the goal.

    Distances are rows plus columns. Of equally near cells the first in the order up, down, left, right.
    """
    size, goal, cell = environment.config.size, environment.lake.goal, environment.position
    cells = "".join(environment.lake.rows)
    moves: list[str] = []
    while len(moves) < environment.config.actions_per_turn and cell != goal:
        safe = {move: near for move, near in neighbours(size)[cell].items() if cells[near] != "H"}
        if not safe:
            break
        moves.append(min(safe, key=lambda move: distance(size, safe[move], goal)))
        cell = safe[moves[-1]]
    return join_moves(moves)
