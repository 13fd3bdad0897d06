"""The trials of a study as a source of the driver: asks for them as earlier ones end, and confirms the winner.

Promised: a trial that was asked for and not told is continued, with the same parameters and runs, before a new one is
asked for; a trial is told once; runs that are done (of an earlier trial, search or sweep) are not done again. Told in
the same order, the same search asks for the same trials.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from plat.dispatch.report import RunEnd
from plat.errors import SpecError
from plat.outcomes import PRUNED
from plat.search.file import Search
from plat.search.pruners import make_pruner
from plat.search.study import STEPS, Study
from plat.search.trial import OpenTrial
from plat.store.home import Home
from plat.store.run_directory.attempts import request_prune
from plat.store.run_directory.creation import create, note_trial
from plat.store.run_directory.state import run_state

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from plat.spec.runs import Run

JUDGE_EVERY = 0.5  # seconds between two looks at the runs under way
CONFIRM = "confirm"  # stands for the number of a trial, of a run that confirms the winner


class TrialSource:
    """`at_once`: a new trial is asked for while fewer runs than this are under way. `runs`: every run so far."""

    def __init__(self, home: Home, search: Search, study: Study, at_once: int) -> None:
        self.runs: list[Run] = []
        self._home = home
        self._search = search
        self._study = study
        self._at_once = at_once
        self._pruner = make_pruner(search.pruner)
        self._open: dict[int, OpenTrial] = {}
        self._under_way: set[str] = set()
        self._done: set[str] = set()
        self._given_up: set[str] = set()  # runs that neither ended nor go on: interrupted, cancelled, held elsewhere
        self._confirming: list[Run] | None = None
        self._judged = 0.0
        for stored in study.trials():
            self._take_up(stored)

    @property
    def exhausted(self) -> bool:
        return not self._open and not self._may_ask() and self._confirming is not None

    def next(self) -> Sequence[Run]:
        self._judge()
        given: list[Run] = []
        for trial in list(self._open.values()):
            given += self._start(trial)
        while len(self._under_way) < self._at_once and self._may_ask():
            given += self._start(self._ask())
        if not given and not self._open and not self._may_ask() and self._confirming is None:
            given = self._confirm()
        return given

    def ended(self, end: RunEnd) -> None:
        self._under_way.discard(end.run.id)
        mine = [trial for trial in self._open.values() if any(run.id == end.run.id for run in trial.runs)]
        if end.state == "done":
            self._done.add(end.run.id)
            for trial in mine:
                trial.done.add(end.run.id)
                self._settle(trial)
        elif end.state == "failed":
            for trial in mine:
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
        elif stored.state.name == "PRUNED":
            self._end_runs(runs, "its trial was given up")

    def _may_ask(self) -> bool:
        trials = self._study.trials()
        if len(trials) >= self._search.trials:
            return False
        if self._search.budget is None:
            return True
        spent = sum(int(trial.user_attrs.get(STEPS, 0)) for trial in trials)
        planned = len(self._open) * self._search.iterations * len(self._search.seeds)
        return spent + planned < self._search.budget

    def _ask(self) -> OpenTrial:
        runs: list[Run] = []
        problem: list[str] = []

        def run_ids(params: dict[str, object]) -> list[str]:
            try:
                runs.extend(self._search.runs_of(params, self._search.seeds))
            except SpecError as error:  # a combination that cannot run: the trial fails, the search goes on
                problem.append(error.what)
            return [run.id for run in runs]

        stored = self._study.ask(run_ids)
        self.runs += runs
        trial = OpenTrial(self._home, self._search, stored, runs)
        if problem:
            self._study.tell_failed(stored.number, problem[0], 0)
        else:
            self._open[trial.number] = trial
        return trial

    def _start(self, trial: OpenTrial) -> list[Run]:
        """The runs of a trial to be done now, their directories made; those done before count at once."""
        given = []
        for run in trial.wanted():
            if run.id in self._done:
                trial.done.add(run.id)
            elif run.id not in self._under_way and run.id not in self._given_up:
                self._prepare(run, str(trial.number))
                given.append(run)
        if trial.runs and not given:
            if trial.is_over and trial.number in self._open:
                self._settle(trial)
            elif trial.number in self._open and trial.wanted()[0].id in self._done:
                return self._start(trial)
        return given

    def _prepare(self, run: Run, number: str) -> None:
        create(self._home, run, self._search.name, paper=self._search.paper)
        note_trial(self._home, run.id, self._search.name, number)
        self._under_way.add(run.id)

    def _judge(self) -> None:
        """Look at the runs under way, where a trial may be given up."""
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
