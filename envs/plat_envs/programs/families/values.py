"""Values of a problem: how arguments are drawn, and how values are written.

`spec(rng, edge)` draws an argument; with `edge`, a short or an extreme one.
"""

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


# How values are written: as the text of stdin and stdout, or as arguments and values of a function.


@dataclass(frozen=True)
class Form:
    """A kind of value.

    called   what it is
    given    the lines of stdin that hold it; {0} is its name
    reads    the code that reads it
    printed  what a program prints; "" for a kind that is no result
    writes   the code that prints `result`
    """

    called: str
    given: str
    reads: str
    printed: str = ""
    writes: str = "print(result)"


KINDS = {
    "int": Form("a whole number", "a line with the number `{0}`", "{0} = int(input())", "the number"),
    "text": Form("a text", "a line with the text `{0}`", "{0} = input()", "the text"),
    "bool": Form("True or False", "", "", "yes or no", 'print("yes" if result else "no")'),
    "ints": Form(
        "a list of whole numbers",
        "a line with the length of `{0}`, and a line with its numbers",
        "input()\n{0} = list(map(int, input().split()))",
        "the numbers in one line, with spaces between them",
        "print(*result)",
    ),
    "words": Form(
        "a list of words",
        "a line with the length of `{0}`, and a line with its words",
        "input()\n{0} = input().split()",
        "the words in one line, with spaces between them",
        "print(*result)",
    ),
    "table": Form(
        "a list of rows of whole numbers",
        "a line with the numbers of rows and columns of `{0}`, and a line for each row",
        "rows, columns = map(int, input().split())\n{0} = [list(map(int, input().split())) for _ in range(rows)]",
    ),
    "pairs": Form(
        "a list of pairs of whole numbers",
        "a line with the length of `{0}`, and a line for each pair",
        "{0} = [list(map(int, input().split())) for _ in range(int(input()))]",
    ),
}


def stdin_of(family: Family, arguments: list[Any]) -> str:
    """Return the text of stdin that holds these arguments."""
    kinds = [kind for kind, _ in family.arguments.values()]
    return "".join(f"{_lines(kind, value)}\n" for kind, value in zip(kinds, arguments, strict=True))


def _lines(kind: str, value: Any) -> str:
    if kind in ("ints", "words"):
        return f"{len(value)}\n{' '.join(map(str, value))}"
    if kind in ("table", "pairs"):
        heading = f"{len(value)} {len(value[0])}" if kind == "table" else str(len(value))
        return "\n".join([heading, *(" ".join(map(str, row)) for row in value)])
    return str(value)


def printed(family: Family, value: Any) -> str:
    """Return what a program prints for a value."""
    if family.result == "bool":
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def as_program(family: Family, function: str) -> str:
    """Return a program that reads the arguments, calls the function, and prints its value."""
    reads = [KINDS[kind].reads.format(name) for name, (kind, _) in family.arguments.items()]
    call = f"result = {family.name}({', '.join(family.arguments)})"
    return "\n".join([function, *reads, call, KINDS[family.result].writes, ""])


def contract(family: Family, function: bool) -> str:
    """Return the sentences that say what the program gets and what it gives."""
    if function:
        given = ", ".join(f"`{name}` is {KINDS[kind].called}" for name, (kind, _) in family.arguments.items())
        heading = f"def {family.name}({', '.join(family.arguments)}):"
        return f"Write this function; it returns {KINDS[family.result].called}. {given}.\n\n{heading}"
    given = "; ".join(KINDS[kind].given.format(name) for name, (kind, _) in family.arguments.items())
    return f"Write a program that reads stdin: {given}. It prints {KINDS[family.result].printed}."
