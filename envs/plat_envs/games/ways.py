"""Ways on a square map whose cells are numbered row by row."""

from __future__ import annotations

from functools import lru_cache

from plat_envs.games.grid import DELTAS


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
