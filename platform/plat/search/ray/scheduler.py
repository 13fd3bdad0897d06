"""Tune's schedulers for the pruners of a search. A stop is in the study before it acts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ray.tune.experiment import Trial
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, MedianStoppingRule, TrialScheduler

from plat.dispatch.sweep_ends import RunEnd
from plat.search.ray.trainable import FAIL, ITERATIONS, POSITION, STOP, TRIAL
from plat.search.search import Search
from plat.search.study import Study
from plat.search.trial import OpenTrial
from plat.search.trials import Trials
from plat.store.home import Home
from plat.words.outcomes import PRUNED
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run

LONGEST = 10**9  # a position that no trial reaches: it limits only the number of rungs


def make_scheduler(search: Search) -> TrialScheduler | None:
    """Return Tune's scheduler for the pruner of a search; None for `none` and those of plug-ins.

    Time is the position of `plat.search.trial_curve`. Options below the least that a scheduler takes are raised to it.
    """
    name, options, objective = search.pruner.name, search.pruner.options, search.objectives[0]
    common = {"time_attr": POSITION, "metric": objective.metric, "mode": "max" if objective.maximize else "min"}
    if name == "median":
        return MedianStoppingRule(
            grace_period=options["warmup"],
            min_samples_required=max(1, options["startup"]),
            min_time_slice=float("inf"),  # it never pauses a trial to let another begin
            **common,
        )
    if name in ("asha", "successive_halving"):
        first = max(1, options["min_steps"])
        return AsyncHyperBandScheduler(
            grace_period=first,
            reduction_factor=max(2, options["reduction"]),
            max_t=LONGEST,
            stop_last_trials=False,
            **common,
        )
    return None


class StudyScheduler(FIFOScheduler):  # type: ignore[misc]
    """Ask Tune's scheduler about each evaluation, and write its stops to the study before the runs are ended.

    Tune would end the process of a stopped trial at once. Here the trial goes on until its runs have saved, and keeps
    its resources until then.
    """

    def __init__(self, search: Search, study: Study, guard: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__()
        self.trials: TunedTrials
        self._study = study
        self._pruner = search.pruner.name
        self._objective = search.objectives[0].metric
        self._inner = make_scheduler(search)
        self._guard = guard
        self._last: dict[int, int] = {}  # trial -> its newest position
        # Trials that an earlier Tuner has not stopped and this one would: evaluations came in another order then. They
        # are not judged any more.
        self._spared: set[int] = set()
        for stored in study.trials():
            if stored.state.is_finished():
                self.judge_past(stored.intermediate_values)

    def judge_past(self, values: Mapping[int, float]) -> int | None:
        """Give Tune's scheduler a trial that needs no execution; return the position at which it stops it, or None."""
        if self._inner is None or not values:
            return None
        past = Trial("past", stub=True)  # known to the scheduler alone
        self._inner.on_trial_add(None, past)
        for at, value in sorted(values.items()):
            if self._inner.on_trial_result(None, past, self._result(at, value)) == self.STOP:
                return at  # Tune's schedulers take no further result of a trial that they have stopped
        self._inner.on_trial_complete(None, past, self._result(at, value))
        return None

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Tell Tune's scheduler of a trial, with its evaluations before this Tuner began."""
        number = trial.config[TRIAL]
        if number is None or self._inner is None:
            return
        self._inner.on_trial_add(tune_controller, trial)
        for at, value in sorted(self._study.trials()[number].intermediate_values.items()):
            self._last[number] = at
            if self._inner.on_trial_result(tune_controller, trial, self._result(at, value)) == self.STOP:
                self._spared.add(number)
                break

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """End the trial in the study if this evaluation asks for it; always return CONTINUE."""
        with self._guard():
            number = trial.config[TRIAL]
            if number is not None and self.trials.open_trial(number) is not None:
                self._judge(tune_controller, trial, number, result)
        return str(self.CONTINUE)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Tell Tune's scheduler that a trial is over, if it has ever reported a value."""
        if trial.config[TRIAL] is not None and self._inner is not None and self._objective in result:
            self._inner.on_trial_complete(tune_controller, trial, result)

    def _judge(self, controller: Any, trial: Trial, number: int, result: Mapping[str, Any]) -> None:
        if FAIL in result:
            self.trials.stop(number, "FAIL", result[FAIL])
            return
        at, value = result.get(POSITION, -1), result.get(self._objective)
        if at <= self._last.get(number, -1):
            return
        self._last[number] = at
        reason = result.get(STOP, "")
        if value is not None:
            inner = None if number in self._spared else self._inner
            if inner is not None and inner.on_trial_result(controller, trial, dict(result)) == self.STOP:
                reason = reason or f"{self._pruner}: {value:.4g} at step {result['step']}"
            self._study.report(number, at, value)
        if reason:
            self.trials.stop(number, "PRUNED", reason, result[ITERATIONS])

    def _result(self, at: int, value: float) -> dict[str, float]:
        return {POSITION: at, self._objective: value}

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: the study has what is needed to go on."""
        return {}


# The trials of a study as trials of Tune: which runs each of them executes, and how Tune's scheduler ends one.


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
