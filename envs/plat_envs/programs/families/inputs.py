"""Generators of arguments: `spec(rng, edge)` draws one; with `edge`, a short or an extreme one."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Template
from textwrap import indent
from typing import Any

Draw = Callable[[random.Random, bool], Any]


def number(low: int, high: int) -> Draw:
    """Return a generator of whole numbers."""
    return lambda rng, edge: rng.choice((low, low + 1, low + 2, high - 1, high)) if edge else rng.randint(low, high)


def numbers(low: int, high: int, least: int = 0, most: int = 9) -> Draw:
    """Return a generator of lists of whole numbers."""

    def draw(rng: random.Random, edge: bool) -> list[int]:
        length = rng.choice((least, least + 1)) if edge and rng.random() < 0.6 else rng.randint(least + 2, most)
        drawn = [rng.randint(low, high) for _ in range(length)]
        change: Callable[[list[int]], list[int]] = rng.choice((sorted, lambda one: one[:1] * len(one), list))
        return change(drawn) if edge else drawn

    return draw


def text(letters: str, least: int = 1, most: int = 14) -> Draw:
    """Return a generator of texts of these letters, without white space at the ends."""

    def draw(rng: random.Random, edge: bool) -> str:
        length = rng.choice((least, least + 1)) if edge else rng.randint(least + 2, most)
        drawn = "".join(rng.choice(letters) for _ in range(length))
        return " ".join(drawn.split()) or letters[0] * least

    return draw


def brackets(most: int = 12) -> Draw:
    """Return a generator of texts of brackets, most of which are closed as they should be."""

    def draw(rng: random.Random, edge: bool) -> str:
        made = ""
        for _ in range(rng.randint(1, 2 if edge else most // 2)):
            pair, place = rng.choice(("()", "[]")), rng.choice((0, len(made) // 2, len(made)))
            made = f"{pair[0]}{made}{pair[1]}" if rng.random() < 0.5 else made[:place] + pair + made[place:]
        if rng.random() < 0.4:
            place = rng.randrange(len(made))
            made = made[:place] + rng.choice("()[]") * rng.randint(0, 1) + made[place + 1 :]
        return made or "("

    return draw


def words(letters: str, least: int = 1, most: int = 7, longest: int = 5) -> Draw:
    """Return a generator of lists of words."""

    def draw(rng: random.Random, edge: bool) -> list[str]:
        length = rng.choice((least, least + 1)) if edge else rng.randint(least + 1, most)
        return ["".join(rng.choice(letters) for _ in range(rng.randint(1, longest))) for _ in range(length)]

    return draw


def table(low: int, high: int, most: int = 5) -> Draw:
    """Return a generator of tables of whole numbers with one row or more."""

    def draw(rng: random.Random, edge: bool) -> list[list[int]]:
        rows, columns = (1, rng.randint(1, 2)) if edge else (rng.randint(2, most), rng.randint(2, most))
        return [[rng.randint(low, high) for _ in range(columns)] for _ in range(rows)]

    return draw


def spans(low: int, high: int, least: int = 0, most: int = 6) -> Draw:
    """Return a generator of lists of pairs [start, end] with start < end."""

    def draw(rng: random.Random, edge: bool) -> list[list[int]]:
        length = rng.choice((least, least + 1)) if edge else rng.randint(least + 2, most)
        return [sorted(rng.sample(range(low, high + 1), 2)) for _ in range(length)]

    return draw


# A family of problems: one function with parameters, and wrong versions of it.

ARROW = " => "
Parameters = Mapping[str, int | str]


@dataclass(frozen=True)
class Family:
    """`$name` in the texts stands for a parameter.

    name         of the function
    arguments    of the function: name -> kind (`forms.KINDS`) and generator
    result       the kind of its value
    statement    what it does
    body         the lines of the function
    mutants      changes of the body that make it wrong: "old => new", for the first place of `old`
    parameters   name -> values that it may have
    """

    name: str
    arguments: Mapping[str, tuple[str, Draw]]
    result: str
    statement: str
    body: str
    mutants: tuple[str, str, str, str]
    parameters: Mapping[str, Sequence[int | str]] = field(default_factory=dict)

    def described(self, parameters: Parameters) -> str:
        """Return the statement with these parameters."""
        return " ".join(Template(self.statement).substitute(parameters).split())

    def sources(self, parameters: Parameters) -> list[str]:
        """Return the source of the function, then those of the mutants."""
        return [self._source(body, parameters) for body in (self.body, *map(self._mutated, self.mutants))]

    def _mutated(self, change: str) -> str:
        old, arrow, new = change.partition(ARROW)
        assert arrow and old in self.body, f"{self.name}: {change}"
        return self.body.replace(old, new, 1)

    def _source(self, body: str, parameters: Parameters) -> str:
        lines = indent(Template(body).substitute(parameters).strip("\n"), "    ")
        return f"def {self.name}({', '.join(self.arguments)}):\n{lines}\n"
