"""Decide when a sweep should start nothing more: the script logs no metric, or runs fail alike."""

from __future__ import annotations

from collections import Counter

from plat.characters import without_numbers
from plat.dispatch.sweep_ends import RunEnd
from plat.units import counted
from plat.words.outcomes import NO_METRIC, failure_class

ALIKE = 3  # failures of one kind after which nothing more is started
_OF_THE_SETTING = ("oom", "nan", "timeout", "preempted", "node")  # the next run, with other values, may well succeed


class FailFast:
    """The failures of one sweep. Two are alike if they differ in numbers only.

    Failures that depend on a run's values or on its machine (no memory, NaN, too slow, a lost node) do not count.
    """

    def __init__(self) -> None:
        self._alike: Counter[str] = Counter()

    def verdict(self, end: RunEnd) -> str:
        """Note how a run has ended; return why nothing more should start, or "" to go on."""
        kind = failure_class(end.outcome)
        if kind is None or kind in _OF_THE_SETTING:
            return ""
        reason = " ".join(end.reason.split())
        if reason.startswith(NO_METRIC):
            return f"{end.run.name}: {reason}"
        key = f"{kind}: {without_numbers(reason)}"
        self._alike[key] += 1
        if self._alike[key] < ALIKE:
            return ""
        return f"{counted(self._alike[key], 'run')} failed alike; the last one, {end.run.name}: {reason}"
