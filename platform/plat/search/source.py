"""The trials of a study as a source of the driver: asks for them as earlier ones end, and confirms the winner.

Promised: a trial whose values were not told to the study is continued, with the same parameters and runs, before a new
trial is asked for; a trial's values are told once; runs that are done (of an earlier trial, search or sweep) are not
done again. When values are told in the same order, the same search asks for the same trials.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from plat.dispatch.report import RunEnd
from plat.errors import SpecError
from plat.outcomes import PRUNED
from plat.search.pruners import make_pruner
from plat.search.search import Search
from plat.search.study import STEPS, Study
from plat.search.trial import OpenTrial
from plat.store.home import Home
from plat.store.run_directory.attempts import request_prune
from plat.store.run_directory.creation import create, note_trial
from plat.store.run_directory.files import read_result
from plat.store.run_directory.state import run_state

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from plat.spec.runs import Run

JUDGE_EVERY = 0.5  # seconds between two judgements of the runs under way
CONFIRM = "confirm"  # stands for the number of a trial, of a run that confirms the winner


class TrialSource:
    """A source of runs (`plat.dispatch.source.Source`) that asks the study for trials.

    at_once  a new trial is asked for while fewer runs than this are under way
    runs     every run so far
    """

    def __init__(self, home: Home, search: Search, study: Study, at_once: int) -> None:
        self.runs: list[Run] = []
        self._home = home
        self._search = search
        self._study = study
        self._at_once = at_once
        self._pruner = make_pruner(search.pruner, (search.iterations + 1) * len(search.seeds))
        self._open: dict[int, OpenTrial] = {}
        self._under_way: set[str] = set()
        self._done: set[str] = set()
        self._lost: list[tuple[Run, str]] = []  # runs of complete trials without their result, and the trial's number
        self._given_up: set[str] = set()  # runs that neither ended nor go on: interrupted, cancelled, held elsewhere
        self._confirming: list[Run] | None = None
        self._judged = 0.0
        for stored in study.trials():
            self._take_up(stored)

    @property
    def exhausted(self) -> bool:
        """Whether the search is over: no trial is open or to come, and the winner is being confirmed."""
        return not self._open and not self._lost and not self._may_ask() and self._confirming is not None

    def next(self) -> Sequence[Run]:
        """The runs to do now: those that lost their result, those of open trials, of new ones as far as there is room,
        at the end those of the winner."""
        self._judge()
        given: list[Run] = [run for run, _ in self._lost]
        for run, number in self._lost:
            self._prepare(run, number)
        self._lost.clear()
        for trial in list(self._open.values()):
            given += self._start(trial)
        while len(self._under_way) < self._at_once and self._may_ask():
            asked = self._ask()
            given += self._start(asked) if asked is not None else []
        if not given and not self._open and not self._may_ask() and self._confirming is None:
            given = self._confirm()
        return given

    def ended(self, end: RunEnd) -> None:
        """Settle the trials of a run that is done; those of one that failed have failed."""
        self._under_way.discard(end.run.id)
        trials = [trial for trial in self._open.values() if any(run.id == end.run.id for run in trial.runs)]
        if end.state == "done":
            self._done.add(end.run.id)
            for trial in trials:
                trial.done.add(end.run.id)
                self._settle(trial)
        elif end.state == "failed":
            for trial in trials:
                self._study.tell_failed(trial.number, f"{end.run.name}: {end.outcome}", trial.iterations())
                self._close(trial)
        elif end.outcome != PRUNED:
            self._given_up.add(end.run.id)

    def _take_up(self, stored: FrozenTrial) -> None:
        """Go on with a stored trial, or, of one that was given up, make sure that its runs know it."""
        try:
            runs = self._search.runs_of(stored.params, self._search.seeds)
        except SpecError as error:
            if not stored.state.is_finished():
                self._study.tell_failed(stored.number, error.what, 0)
            return
        self.runs += runs
        if not stored.state.is_finished():
            self._open[stored.number] = OpenTrial(self._home, self._search, stored, runs)
        elif stored.state.name == "COMPLETE":
            self._lost += [(run, str(stored.number)) for run in runs if self._has_lost_its_result(run)]
        elif stored.state.name == "PRUNED":
            self._end_runs(runs, "its trial was given up")

    def _has_lost_its_result(self, run: Run) -> bool:
        """Whether a run that was done has a directory without a (whole) result; one that was removed stays so."""
        paths = self._home.run(run.id)
        return paths.root.is_dir() and read_result(paths) is None

    def _may_ask(self) -> bool:
        trials = self._study.trials()
        if len(trials) >= self._search.trials:
            return False
        if self._search.budget is None:
            return True
        spent = sum(int(trial.user_attrs.get(STEPS, 0)) for trial in trials)
        planned = len(self._open) * self._search.iterations * len(self._search.seeds)
        return spent + planned < self._search.budget

    def _ask(self) -> OpenTrial | None:
        """A new trial; None when its parameters do not go together: then it has failed, and the search goes on."""
        suggested = self._study.suggest()
        try:
            runs = self._search.runs_of(suggested.params, self._search.seeds)
        except SpecError as error:
            stored = self._study.add(suggested, [])
            self._study.tell_failed(stored.number, error.what, 0)
            return None
        stored = self._study.add(suggested, [run.id for run in runs])
        self.runs += runs
        trial = self._open[stored.number] = OpenTrial(self._home, self._search, stored, runs)
        return trial

    def _start(self, trial: OpenTrial) -> list[Run]:
        """The runs of a trial to be done now, their directories made; those done for another trial count at once."""
        trial.done.update(run.id for run in trial.runs if run.id in self._done)
        if trial.is_over:
            self._settle(trial)
            return []
        begun = self._under_way | self._given_up
        given = [run for run in trial.wanted() if run.id not in begun]
        for run in given:
            self._prepare(run, str(trial.number))
        return given

    def _prepare(self, run: Run, number: str) -> None:
        create(self._home, run, self._search.name, paper=self._search.paper)
        note_trial(self._home, run.id, self._search.name, number)
        self._under_way.add(run.id)

    def _judge(self) -> None:
        """Give up the trials that show too little, where the search has a pruner."""
        if self._search.pruner.name == "none" or time.monotonic() - self._judged < JUDGE_EVERY:
            return
        self._judged = time.monotonic()
        for trial in list(self._open.values()):
            self._prune_if_bad(trial)

    def _prune_if_bad(self, trial: OpenTrial) -> bool:
        reason = trial.judge(self._study, self._pruner)
        if reason:
            self._study.tell_pruned(trial.number, reason, trial.judged_iterations())
            self._close(trial)
            self._end_runs(trial.runs, reason)
        return bool(reason)

    def _settle(self, trial: OpenTrial) -> None:
        """Tell a trial whose runs are all done; judge first what was not judged yet."""
        if self._search.pruner.name != "none" and self._prune_if_bad(trial):
            return
        if trial.is_over:
            self._study.tell(trial.number, trial.values(), trial.iterations())
            self._close(trial)

    def _close(self, trial: OpenTrial) -> None:
        self._open.pop(trial.number, None)

    def _end_runs(self, runs: Sequence[Run], reason: str) -> None:
        """Stop the runs of a trial that was given up, unless another trial wants them."""
        wanted = {run.id for trial in self._open.values() for run in trial.runs}
        for run in runs:
            paths = self._home.run(run.id)
            if run.id not in wanted and run_state(paths).state in ("running", "queued"):
                request_prune(paths, reason)

    def _confirm(self) -> list[Run]:
        """The runs of the winner on fresh seeds; of several winners where there are several objectives."""
        winners = self._study.winners()
        self._confirming = [
            run for winner in winners for run in self._search.runs_of(winner.params, self._search.confirm)
        ]
        self.runs += self._confirming
        for run in self._confirming:
            self._prepare(run, CONFIRM)
        return self._confirming
