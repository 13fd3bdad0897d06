"""Reading and demonstrating moves, shared by the two grid games."""

from __future__ import annotations

import random
import re

from plat_envs.episode import SEPARATOR
from plat_envs.vocabulary import DIRECTIONS

DELTAS: dict[str, tuple[int, int]] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
_JOIN = f" {SEPARATOR} "

TEMPLATES = (
    "i should move toward the goal step by step",
    "let me plan a safe path to the goal",
    "i will think carefully and then make the move",
    "first look at the goal then move closer",
    "the next move should make me closer now",
    "let me try to find a good way there",
)


def read_moves(answer: str, most: int) -> tuple[list[str], bool]:
    """Valid moves among the first `most` given (joined by `||`), and whether there is one and all are valid."""
    given = [part for part in map(str.strip, answer.split(SEPARATOR)) if part][:most]
    moves = [move for move in map(str.lower, given) if move in DELTAS]
    return moves, bool(moves) and len(moves) == len(given)


def join_moves(moves: list[str]) -> str:
    return _JOIN.join(moves)


def random_moves(rng: random.Random, most: int) -> str:
    """One to `most` random moves as an answer."""
    return _JOIN.join(rng.choice(DIRECTIONS) for _ in range(rng.randint(1, most)))


def sentence(pattern: str, most: int) -> re.Pattern[str]:
    """A grammar rule: N is a number word, D a direction, D* one to `most` directions."""
    direction, number = f"(?:{'|'.join(DIRECTIONS)})", r"\d{1,2}"
    words = {"N": number, "D": direction, "D*": f"{direction}(?: {direction}){{0,{most - 1}}}"}
    return re.compile(" ".join(words.get(word, re.escape(word)) for word in pattern.split()))
