"""What every reader yields, and what a reader does with input that it cannot use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, Protocol

from plat.errors import RunError

STEPS = ("step", "iteration", "epoch", "global_step", "_step")  # names of a step if the experiment file names none
SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # as W&B and trackio write these numbers
LARGEST_STEP = 2**53  # larger numbers are not exact
LONGEST_MESSAGE = 200  # characters
Look = Literal["first", "changed", "found"]


class Logged(NamedTuple):
    """The metrics of one step.

    step     a whole number from 0 to LARGEST_STEP
    metrics  name -> number
    time     when they were logged, in seconds since 1970
    counter  the name that counts the step, such as "step" or "epoch"
    look     "first": as the script logged it; "changed": something that shows a value again, such as a rewritten file,
             has another one now; "found": a rewritten file has a value that it had not
    """

    step: int
    metrics: dict[str, float]
    time: float
    counter: str = "step"
    look: Look = "first"


class Source(Protocol):
    """Something that a script logs into."""

    def new(self, is_last: bool = False) -> Iterator[Logged]:
        """Yield what was logged since the last call. `is_last`: the script has ended."""


# Says what input cannot be used: (what, where, fix). In an import it raises SpecError, in a run it makes a note.
Refuse = Callable[[str, str, str], None]


def number(value: Any) -> float | None:
    """Return a number, or the text of one, as float; None for everything else, truth values included."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def json_number(value: Any) -> float | None:
    """Return a number, or one of SPECIAL, as float; None for everything else, other texts and truth values included."""
    return SPECIAL.get(value) if isinstance(value, str) else number(value)


def whole(name: str, value: Any, stated: float | None, where: str | None = None) -> int:
    """Return a step as a whole number. Raises RunError if `stated`, the number of `value`, is none."""
    if stated is None or not 0 <= stated <= LARGEST_STEP or stated != int(stated):
        shown = f"{name} is {value!r}"[:LONGEST_MESSAGE]
        what = f"the script logged a step that is no whole number from 0 to 2**53: {shown}"
        raise RunError(what, where=where, fix="print steps such as 1, 2, 3, or name their key with script.step")
    return int(stated)


def step_names(step: str) -> tuple[str, ...]:
    """Return the names that may count steps, in lower case; `step`: the only one, if it is named."""
    return (step.lower(),) if step else STEPS


def same(first: float | None, second: float | None) -> bool:
    """Return True if two numbers are equal; NaN equals itself."""
    return first == second or (first != first and second != second)
