"""A family of problems: one function with parameters, and wrong versions of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Template
from textwrap import indent

from plat_envs.programs.families.inputs import Draw

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
