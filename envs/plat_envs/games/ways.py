"""Ways on a square map whose cells are numbered row by row, and shortest solutions of Sokoban."""

from __future__ import annotations

import random
from functools import lru_cache

from plat_envs.stand_in import DIRECTIONS
from plat_envs.turns.episode import SEPARATOR


@lru_cache(maxsize=16)
def neighbours(size: int) -> tuple[dict[str, int], ...]:
    """Return for each cell: move -> next cell, without moves off the map."""
    return tuple(
        {
            move: (row + down) * size + column + right
            for move, (down, right) in DELTAS.items()
            if 0 <= row + down < size and 0 <= column + right < size
        }
        for row in range(size)
        for column in range(size)
    )


def distances(rows: tuple[str, ...], goal: int) -> tuple[int, ...]:
    """Return for each cell the least number of moves to the goal around the holes; -1 for holes and without a way."""
    cells, around = "".join(rows), neighbours(len(rows))
    distance = [-1] * len(cells)
    distance[goal] = 0
    frontier = [goal]
    for cell in frontier:
        further = distance[cell] + 1
        for near in around[cell].values():
            if distance[near] < 0 and cells[near] != "H":
                distance[near] = further
                frontier.append(near)
    return tuple(distance)


def straight_way(size: int, start: int, goal: int, vertical_first: bool = True) -> list[int]:
    """Return the cells after `start` up to `goal` by moves along one axis, then along the other."""
    (row, column), (down, right) = divmod(start, size), divmod(goal, size)
    rows = [*range(row, down, 1 if down > row else -1), down]
    columns = [*range(column, right, 1 if right > column else -1), right]
    if vertical_first:
        way = [(at, column) for at in rows] + [(down, at) for at in columns[1:]]
    else:
        way = [(row, at) for at in columns] + [(at, right) for at in rows[1:]]
    return [at * size + across for at, across in way[1:]]


# Read and write moves, for the two grid games.

DELTAS: dict[str, tuple[int, int]] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
_JOIN = f" {SEPARATOR} "


def read_moves(answer: str, most: int) -> tuple[list[str], bool]:
    """Return the valid moves of the first `most`, in lower case, and True if there is one and all those are valid."""
    given = [part for part in map(str.strip, answer.split(SEPARATOR)) if part][:most]
    moves = [move for move in map(str.lower, given) if move in DELTAS]
    return moves, bool(moves) and len(moves) == len(given)


def join_moves(moves: list[str]) -> str:
    """Return the answer with these moves, e.g. "up || left"."""
    return _JOIN.join(moves)


def said_moves(answer: str) -> str:
    """Return the moves of an answer as a reasoning states them, without separators: "up left"."""
    return answer.replace(f"{SEPARATOR} ", "")


def random_moves(rng: random.Random, most: int) -> str:
    """Return an answer of one to `most` random moves."""
    return _JOIN.join(rng.choice(DIRECTIONS) for _ in range(rng.randint(1, most)))


def distance(size: int, cell: int, other: int) -> int:
    """Return rows plus columns between two cells."""
    (row, column), (down, right) = divmod(cell, size), divmod(other, size)
    return abs(row - down) + abs(column - right)


# Positions of Sokoban, and shortest solutions.

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
