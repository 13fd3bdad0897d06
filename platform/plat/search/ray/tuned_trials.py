"""The trials of a study as trials of Tune: which runs each of them executes, and how Tune's scheduler ends one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from plat.dispatch.sweep_ends import RunEnd
from plat.search.search import Search
from plat.search.study import Study
from plat.search.trial import OpenTrial
from plat.search.trials import Trials
from plat.store.home import Home
from plat.words.outcomes import PRUNED
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run


class PastJudge(Protocol):
    """Judges a trial that needs no execution."""

    def judge_past(self, values: Mapping[int, float]) -> int | None:
        """Return the first position of these values (position -> value) at which the trial is stopped, None if none."""


@dataclass(frozen=True)
class Packet:
    """The runs of one trial of Tune, executed one after another.

    trial  the open trial that it executes and that Tune's scheduler may stop; None: these runs are not judged
    """

    trial: OpenTrial | None
    runs: tuple[Run, ...]


class TunedTrials(Trials):
    """Give the trials to Tune as packets. `judge`: judges trials whose runs were all done before."""

    def __init__(self, home: Home, search: Search, study: Study, judge: PastJudge) -> None:
        super().__init__(home, search, study)
        self._past = judge
        self._begun: set[int] = set()  # trials that Tune has had
        self._is_judged = search.pruner.name != "none"

    def packets(self) -> list[Packet]:
        """Return what is to be done next; a new trial only if there is nothing else. [] if there is nothing now."""
        packets = [Packet(None, (run,)) for run in self._start_lost()]
        for trial in list(self._open.values()):
            packets += self._packets_of(trial)
        while not packets and self._may_ask():
            asked = self._ask()
            packets += self._packets_of(asked) if asked is not None else []
        return packets or [Packet(None, (run,)) for run in self._confirm()]

    def begin(self, trial: OpenTrial) -> None:
        """Note that Tune executes a trial."""
        self._begun.add(trial.number)

    def open_trial(self, number: int) -> OpenTrial | None:
        """Return the trial of this number if it is open."""
        return self._open.get(number)

    def stop(self, number: int, state: Literal["PRUNED", "FAIL"], reason: str, iterations: int | None = None) -> None:
        """End an open trial: first in the study, then its runs, which save and stop.

        iterations  of training that it took; None: up to the newest event of its runs
        """
        trial = self._open[number]
        self._end(trial, state, reason, trial.curve.iterations() if iterations is None else iterations)

    def put_back(self, run: Run) -> None:
        """Let `packets` return a run of a packet again, while its trial is open."""
        self.ended(RunEnd(run, RunStatus.MISSING, PRUNED))

    def _packets_of(self, trial: OpenTrial) -> Iterator[Packet]:
        runs = tuple(self._start(trial))
        if self._is_judged:
            return iter([Packet(trial, runs)] if runs else [])
        return (Packet(None, (run,)) for run in runs)

    def _judge(self, trial: OpenTrial) -> str:
        """Judge a trial whose runs were all done before, by its curve; Tune has judged any other."""
        if not self._is_judged or not trial.is_over or trial.number in self._begun:
            return ""
        values: dict[int, float] = {}
        for point in trial.curve.new(trial.done):
            if point.value is not None:
                values[point.position] = point.value
                self._study.report(trial.number, point.position, point.value)
            if point.stop:
                return point.stop
        at = self._past.judge_past(values)
        return "" if at is None else f"{self._search.pruner.name}: {values[at]:.4g} at position {at}"
