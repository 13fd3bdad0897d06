"""Normalise a metric so that tasks with different scores can be averaged: (value - low) / (high - low).

    {metric: score, normalised: {low: 0, high: 500}}
    {metric: score, normalised: {low: {Pong: -20.7, Breakout: 1.7}, high: {Pong: 14.6, Breakout: 30.5}, by: env}}

0 is for example a random policy and 1 a human, as in the human-normalised scores of Atari. The whole curve is
normalised, so `steps_to` takes a normalised threshold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis.data.results import Results, RunView, spell

FIX = "write normalised: {low: 0, high: 100}, or numbers by task: {low: {A: 0, B: 5}, high: {A: 10, B: 9}, by: AXIS}"
End = float | Mapping[str, float]


@dataclass(frozen=True)
class Scale:
    """Hold the scores that become 0 and 1: a number each, or one for each value of the axis `by`."""

    low: End
    high: End
    by: str = "task"

    @classmethod
    def read(cls, given: Any) -> Scale:
        """Return the scale that an experiment file gives.

        Raises SpecError unless it has `low` and `high`, each a finite number or a mapping to finite numbers, or if the
        two are equal.
        """
        if not isinstance(given, Mapping) or not {"low", "high"} <= given.keys():
            raise SpecError(f"normalised: {given!r} does not give low and high", fix=FIX)
        unknown = [key for key in given if key not in ("low", "high", "by")]
        if unknown:
            raise SpecError(
                f"normalised has no key {unknown[0]!r}", fix=suggest(unknown[0], ("low", "high", "by"), "keys")
            )
        scale = cls(_end("low", given["low"]), _end("high", given["high"]), str(given.get("by", "task")))
        for value in scale.named or [""]:
            ends = scale.ends(value)
            if ends is not None and ends[0] == ends[1]:
                place = f" for {value}" if value else ""
                raise SpecError(
                    f"normalised: low and high are both {ends[0]:g}{place}", fix="give two different scores"
                )
        return scale

    @property
    def named(self) -> list[str]:
        """Return the values of `by` that have an own number."""
        return list(dict.fromkeys(name for end in (self.low, self.high) if isinstance(end, Mapping) for name in end))

    def ends(self, value: str) -> tuple[float, float] | None:
        """Return (low, high) for a value of the axis; None where one of them is not given."""
        found = [end.get(value) if isinstance(end, Mapping) else end for end in (self.low, self.high)]
        return None if found[0] is None or found[1] is None else (found[0], found[1])

    def check(self, results: Results) -> None:
        """Raise SpecError if a wanted run has a value of the axis without a low or high score, or lacks the axis."""
        for run in results.positions if self.named else ():
            value = run.axis(self.by)
            if self.ends(value) is None:
                what = f"normalised: {self.by} = {value} has no low or no high score"
                raise SpecError(what, fix=f"add {value!r} under `low` and `high`; they have {', '.join(self.named)}")

    def apply(self, values: NDArray[np.float64], run: RunView) -> NDArray[np.float64] | None:
        """Return normalised values of a run; None without scores for it."""
        ends = self.ends(run.axis(self.by) if self.named else "")
        return None if ends is None else (values - ends[0]) / (ends[1] - ends[0])


def _end(name: str, given: Any) -> End:
    numbers = {spell(key): value for key, value in given.items()} if isinstance(given, Mapping) else {"": given}
    for value in numbers.values() or [None]:
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise SpecError(f"normalised: {name} is {value!r}, not a number", fix=FIX)
    return {key: float(value) for key, value in numbers.items()} if isinstance(given, Mapping) else float(given)
