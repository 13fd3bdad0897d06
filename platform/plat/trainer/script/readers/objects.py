"""Turn objects, such as lines of JSON, into metrics by step.

Nested objects get dotted names: {"train": {"loss": 1}} is `train.loss`, as in the logs of W&B. An object without a step
is no metrics, e.g. the arguments of the script, unless no object has one: then they are counted from 1.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from plat.errors import RunError

DEEPEST = 20  # levels of nested objects
MOST_DIGITS = 400  # of an integer that is a metric: no float is as large, and Python refuses thousands
MOST_HELD = 10_000  # objects without a step that wait for one that has it


class Objects:
    """Objects of one source, in their order.

    step      the name of the step; "" for the first of STEPS that an object has
    refuse    says that an object was left out
    place     the name of the source, for messages
    first     the number of the first object without a step
    fraction  True: a step such as `epoch: 0.1` is a metric, and its objects are counted
    time_key  the name of the time in seconds since 1970, if objects have one; it is no metric
    """

    def __init__(
        self, step: str, refuse: Refuse, place: str = "", *, first: int = 1, fraction: bool = False, time_key: str = ""
    ) -> None:
        self._names, self._refuse, self._place = step_names(step), refuse, place
        self._stated = frozenset(self._names)
        self._next, self._fraction, self._time_key = first, fraction, time_key
        self._held: list[tuple[dict[str, float], float]] = []  # without a step
        self._held_names: set[str] = set()
        self._has_step = self._is_counted = False

    def of_line(self, line: str | bytes, at: float | None = None) -> Iterator[Logged]:
        """Yield the metrics of a line of JSON objects, as several processes may print them; any other line has none."""
        for values in objects_in(line if isinstance(line, str) else line.decode("utf-8", "replace")):
            yield from self.of_values(values, at)

    def of_values(self, values: Mapping[str, Any], at: float | None = None) -> Iterator[Logged]:
        """Yield the metrics among these values, and those before them that waited.

        Raises RunError if the step is a number, but no whole one from 0 to LARGEST_STEP.
        """
        found = flat(values)
        logged_at = number(found.pop(self._time_key, None)) or at or time.time()
        key, step = self._step(found)
        if key and step is None:
            shown = f"{key} is {found[key]!r}"[:LONGEST_MESSAGE]
            self._refuse(f"an object whose step is no number is left out: {shown}", self._place, "print whole numbers")
            return
        numbers = ((name, number(value)) for name, value in found.items() if name != key)
        metrics = {name: value for name, value in numbers if value is not None}
        if not metrics:
            return
        if step is not None:
            self._leave_out()
            self._has_step, self._next = True, step + 1
            yield Logged(step, metrics, logged_at, key)
        elif self._is_counted and not self._has_step:
            yield self._counted(metrics, logged_at)
        elif self._has_step:
            self._say_left_out(metrics)
        else:
            repeats = not self._held_names.isdisjoint(metrics)  # arguments and summaries come once, steps come again
            self._held.append((metrics, logged_at))
            self._held_names.update(metrics)
            if repeats or len(self._held) > MOST_HELD:
                yield from self.end()

    def has_step(self, values: Mapping[str, Any]) -> bool:
        """Return True if a step is among these values, a fraction of an epoch included."""
        return any(name.lower() in self._stated for name in flat(values))

    def end(self, others_have_steps: bool = False) -> Iterator[Logged]:
        """Yield the objects without a step that still wait for one that has it: there is none.

        others_have_steps   True: other lines of the source have steps, so these are left out
        """
        if others_have_steps and not self._is_counted:
            self._leave_out()
        self._is_counted = True
        for metrics, at in self._held:
            yield self._counted(metrics, at)
        self._held = []

    def _counted(self, metrics: dict[str, float], at: float) -> Logged:
        self._next += 1
        return Logged(self._next - 1, metrics, at)

    def _leave_out(self) -> None:
        for metrics, _ in self._held:
            self._say_left_out(metrics)
        self._held = []

    def _say_left_out(self, metrics: Mapping[str, float]) -> None:
        names = ", ".join(sorted(metrics))[:LONGEST_MESSAGE]
        self._refuse(f"an object without a step is left out, because others have one ({names})", self._place, "")

    def _step(self, found: Mapping[str, Any]) -> tuple[str, int | None]:
        """Return the name of the step, "" without one, and the step, None if it is a text."""
        names = {name.lower(): name for name in reversed(list(found))}
        for key in (names[name] for name in self._names if name in names):
            value, stated = found[key], number(found[key])
            if isinstance(value, str) and stated is None:
                return key, None
            if self._fraction and stated is not None and stated % 1:
                self._names = tuple(name for name in self._names if name != key.lower())
                continue
            return key, whole(key, value, stated)
        return "", None


def objects_in(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a text that has nothing else, [] for any other."""
    found, rest = list[dict[str, Any]](), text.strip()
    with contextlib.suppress(ValueError, RecursionError):
        while rest.startswith("{"):
            values, end = json.JSONDecoder(parse_int=_integer).raw_decode(rest)
            found.append(values)
            rest = rest[end:].lstrip()
    return [] if rest else found


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= MOST_DIGITS else None


def flat(values: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Return dotted name -> number or text; other values are left out."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and depth < DEEPEST:
            found |= flat(value, f"{prefix}{name}.", depth + 1)
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            found[f"{prefix}{name}"] = value
    return found


# What every reader yields, and what a reader does with input that it cannot use.

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
        return None if isinstance(value, str) and "_" in value else float(value)  # Python reads 1_0 as 10
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
