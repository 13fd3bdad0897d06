"""A problem of the chat rendering: what is asked for, its tests, and programs that are right and wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plat_envs.sandbox.program import Call, Program, Test

AnyTest = Test | Call


@dataclass(frozen=True)
class Problem:
    """`key` identifies it; `statement` is all that is asked for, with the example.

    function    that the program defines; None: the program reads stdin and prints
    example     a test that the statement shows; None for real problems, whose statements have their own examples
    hidden      the tests that decide the reward
    reference   a program that passes them; "" if none is known
    wrong       wrong programs, the one that passes most tests first
    given, gives   what kind of input and of result it has, in words
    """

    key: str
    statement: str
    function: str | None
    example: AnyTest | None
    hidden: tuple[AnyTest, ...]
    reference: str = ""
    wrong: tuple[str, ...] = ()
    given: str = ""
    gives: str = ""

    def program(self, source: str) -> Program:
        """Return a program that the tests of this problem can grade."""
        return Program(source, self.function)

    def constant(self, value: Any) -> str:
        """Return the program that gives this value, whatever its input is."""
        if self.function is None:
            return f"print({value!r})"
        return f"def {self.function}(*_):\n    return {value!r}"


def best_constant(tests: Sequence[AnyTest]) -> tuple[Any, float]:
    """Return the expected value that most tests have, the earliest of several, and the share of them that pass."""
    counts = Counter(map(_same, tests))
    best = max(tests, key=lambda test: counts[_same(test)])
    return best.expected, counts[_same(best)] / len(tests)


def _same(test: AnyTest) -> str:
    """Return a text that is equal for expected values that are equal to the grader."""
    if isinstance(test, Call):
        return repr(test.expected)
    return "\n".join(line.rstrip() for line in test.expected.rstrip().split("\n"))
