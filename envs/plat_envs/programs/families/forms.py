"""How values are written: as the text of stdin and stdout, or as arguments and values of a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plat_envs.programs.families.inputs import Family


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
