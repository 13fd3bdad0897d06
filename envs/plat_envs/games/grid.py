"""Read and write moves, for the two grid games."""

from __future__ import annotations

import random

from plat_envs.stand_in.vocabulary import DIRECTIONS
from plat_envs.turns.episode import SEPARATOR

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
