"""Positions of Sokoban, and shortest solutions."""

from __future__ import annotations

from functools import lru_cache

from plat_envs.games.ways import DELTAS

State = tuple[int, tuple[int, ...]]  # player, sorted boxes; cells are numbered row by row


def steps(size: int) -> dict[str, int]:
    """Return move -> change of the cell number, e.g. "down" -> `size`."""
    return {move: down * size + right for move, (down, right) in DELTAS.items()}


@lru_cache(maxsize=256)  # a few dozen kilobytes each
def backward_distances(size: int, walls: frozenset[int], targets: tuple[int, ...]) -> dict[State, int]:
    """Return position -> least moves to the solved board, for positions that can reach it. Cached: do not change it."""
    floor = [cell not in walls for cell in range(size * size)]
    moves = tuple(steps(size).values())
    distance: dict[State, int] = {(player, targets): 0 for player in range(size * size) if floor[player]}
    for target in targets:
        del distance[target, targets]
    frontier = list(distance)
    for state in frontier:
        player, boxes = state
        further = distance[state] + 1
        for move in moves:
            behind = player - move
            if not floor[behind] or behind in boxes:
                continue
            walked = (behind, boxes)
            if walked not in distance:
                distance[walked] = further
                frontier.append(walked)
            ahead = player + move
            if ahead in boxes:
                pulled = (behind, tuple(sorted(player if box == ahead else box for box in boxes)))
                if pulled not in distance:
                    distance[pulled] = further
                    frontier.append(pulled)
    return distance


def moved(state: State, step: int, walls: frozenset[int]) -> State:
    """Return the position after a move; `state` itself if something is in the way. `step`: a value of `steps(size)`."""
    player, boxes = state
    to = player + step
    if to in walls:
        return state
    if to in boxes:
        beyond = to + step
        if beyond in walls or beyond in boxes:
            return state
        boxes = tuple(sorted(beyond if box == to else box for box in boxes))
    return to, boxes


def shortest_solution(
    size: int, walls: frozenset[int], targets: tuple[int, ...], state: State
) -> list[tuple[str, State]]:
    """Return a shortest solution as (move, position before it); [] if `state` is solved or cannot be solved."""
    distance, by_move = backward_distances(size, walls, targets), steps(size)
    moves: list[tuple[str, State]] = []
    while distance.get(state, 0) > 0:
        closer = distance[state] - 1
        for move, step in by_move.items():
            after = moved(state, step, walls)
            if distance.get(after) == closer:
                moves.append((move, state))
                state = after
                break
    return moves
