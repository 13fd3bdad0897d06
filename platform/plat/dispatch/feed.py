"""The runs of a sweep that are to be done, as its source gives them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from plat.dispatch.admission import Admission
from plat.dispatch.report import RunEnd, SweepReport
from plat.dispatch.source import Source

if TYPE_CHECKING:
    from plat.spec.runs import Run


class Feed:
    """Takes runs from a source, leaves out those that are not to be done, and lets the source know how each ends.

    Every run that the source gives is in the report from then on.
    """

    def __init__(self, source: Source, admission: Admission, report: SweepReport) -> None:
        self._source = source
        self._admission = admission
        self._report = report
        self._given: Counter[str] = Counter()  # how often the source has given a run that has not ended

    @property
    def exhausted(self) -> bool:
        """Whether the source will give no further run, whatever ends."""
        return self._source.exhausted

    def next(self) -> list[Run]:
        """The runs to be done among those that the source gives now; the others end at once."""
        missing: list[Run] = []
        while given := self._source.next():
            new = []
            for run in given:
                self._given[run.id] += 1
                if self._given[run.id] == 1:  # else it is under way already
                    new.append(run)
            for end in self._admission.judge(new):
                if end.state == "missing":
                    self._report.ends[end.run.id] = end
                    missing.append(end.run)
                else:
                    self.ended(end)
        return missing

    def ended(self, end: RunEnd) -> None:
        """A run has ended: note it, and let the source know as often as it has given the run."""
        self._report.ends[end.run.id] = end
        for _ in range(self._given.pop(end.run.id, 0)):
            self._source.ended(end)
