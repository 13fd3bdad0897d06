"""The runs of a sweep that are to be executed, in the order in which their source gives them.

A list gives all runs at once (a sweep), a search gives more as runs end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from plat.dispatch.admission import Admission
from plat.dispatch.sweep_ends import RunEnd, SweepReport
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run


class Source(Protocol):
    """Give the driver runs. All calls come from one thread.

    A run that an earlier sweep or search has done (same identity) is not executed again: its end is reported at once.
    """

    def next(self) -> Sequence[Run]:
        """Return further runs to execute now, in a number of its choice; empty to wait for running ones.

        It is called again at once until it returns none.
        """

    def ended(self, end: RunEnd) -> None:
        """Note that a given run has ended, or was found done, failed for good, or held by another process.

        It is called once for each time that the run was given.
        """

    @property
    def exhausted(self) -> bool:
        """True if it will give no further run, however the given ones end."""


class FixedRuns:
    """A list of runs, all given at once."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = list(runs)

    def next(self) -> Sequence[Run]:
        """Return all runs at the first call, then none."""
        runs, self._runs = self._runs, []
        return runs

    def ended(self, end: RunEnd) -> None:
        """Ignore the end: a list does not depend on it."""

    @property
    def exhausted(self) -> bool:
        return not self._runs


@dataclass
class Feed:
    """Take runs from a source, drop those that need no execution, and report each end to the source.

    Every run that the source has given is in the sweep's report.
    """

    source: Source
    admission: Admission
    report: SweepReport
    _given: Counter[str] = field(default_factory=Counter)  # id of a running run -> how often the source has given it

    @property
    def exhausted(self) -> bool:
        """True if the source will give no further run."""
        return self.source.exhausted

    def next(self) -> list[Run]:
        """Return the runs to execute among those that the source gives now.

        The ends of the others (done, failed for good or held elsewhere) are reported to the source at once.
        """
        missing: list[Run] = []
        while given := self.source.next():
            new = []
            for run in given:
                self._given[run.id] += 1
                if self._given[run.id] == 1:  # else it is running already
                    new.append(run)
            for end in self.admission.judge(new):
                if end.state == RunStatus.MISSING:
                    self.report.ends[end.run.id] = end
                    missing.append(end.run)
                else:
                    self.ended(end)
        return missing

    def ended(self, end: RunEnd) -> None:
        """Note that a run has ended, and report the end to the source.

        A source may give a running run again. It gets one report for each time that it gave the run.
        """
        self.report.ends[end.run.id] = end
        for _ in range(self._given.pop(end.run.id, 0)):
            self.source.ended(end)
