"""The trials of a study as a run source: asks for trials as earlier ones end, and confirms the winner.

Promised: a trial without values is resumed with the same parameters and runs before a new one is asked for; its values
are told once; done runs (of an earlier trial, search or sweep) are not repeated. If values are told in the same order,
the same search asks for the same trials.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from plat.dispatch.sweep_ends import RunEnd
from plat.errors import SpecError
from plat.search.pruners import make_pruner
from plat.search.search import Search
from plat.search.study import STEPS, Study
from plat.search.summary import progress
from plat.search.trial import Diverged, OpenTrial
from plat.store.home import Home
from plat.store.run_directory.attempts import request_prune
from plat.store.run_directory.creation import create, note_trial
from plat.store.run_directory.run_files import read_result
from plat.store.run_directory.state import run_state
from plat.words.outcomes import PRUNED
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from plat.spec.expansion.run import Run

JUDGE_EVERY = 0.5  # seconds between two checks of the active runs
CONFIRM = "confirm"  # replaces the trial's number in a run that confirms the winner


class TrialSource:
    """A run source (`plat.dispatch.feed.Source`) that asks the study for trials; `runs` has every run so far.

    at_once  ask for a new trial while fewer runs than this are active
    on_end   called with a sentence when a trial is complete: its values, and the best so far
    """

    def __init__(
        self, home: Home, search: Search, study: Study, at_once: int, on_end: Callable[[str], None] | None = None
    ) -> None:
        self.runs: list[Run] = []
        self._home = home
        self._search = search
        self._study = study
        self._at_once = at_once
        self._on_end = on_end
        self._pruner = make_pruner(search.pruner)
        self._open: dict[int, OpenTrial] = {}
        self._under_way: set[str] = set()
        self._done: set[str] = set()
        self._lost: list[tuple[Run, str]] = []  # runs of complete trials that lost their result, and the trial's number
        self._given_up: set[str] = set()  # interrupted, cancelled, or held elsewhere: not tried again
        self._confirming: list[Run] | None = None
        self._judged = 0.0
        for stored in study.trials():
            self._take_up(stored)

    @property
    def exhausted(self) -> bool:
        """True if no trial is open or left to ask for, and the runs that confirm the winner were given out."""
        return not self._open and not self._lost and not self._may_ask() and self._confirming is not None

    def next(self) -> Sequence[Run]:
        """Return the runs to do now; [] if there are none at present.

        First come runs of complete trials whose result is gone, then runs of open trials, then runs of new trials. When
        all trials are over, return the runs that confirm the winner, once.
        """
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
        """Settle the trials of a run that is done; fail those of a run that failed.

        A run that ended otherwise and was not pruned is not given again; its trials stay open.
        """
        self._under_way.discard(end.run.id)
        trials = [trial for trial in self._open.values() if any(run.id == end.run.id for run in trial.runs)]
        if end.state == RunStatus.DONE:
            self._done.add(end.run.id)
            for trial in trials:
                trial.done.add(end.run.id)
                self._settle(trial)
        elif end.state == RunStatus.FAILED:
            for trial in trials:
                self._study.give_up(trial.number, "FAIL", f"{end.run.name}: {end.outcome}", trial.iterations())
                self._open.pop(trial.number, None)
        elif end.outcome != PRUNED:
            self._given_up.add(end.run.id)

    def _take_up(self, stored: FrozenTrial) -> None:
        """Reopen a stored trial. If the trial was pruned, make sure that its runs are ended."""
        try:
            runs = self._search.runs_of(stored.params, self._search.seeds)
        except SpecError as error:
            if not stored.state.is_finished():
                self._study.give_up(stored.number, "FAIL", error.what, 0)
            return
        self.runs += runs
        if not stored.state.is_finished():
            self._open[stored.number] = OpenTrial(self._home, self._search, stored, runs)
        elif stored.state.name == "COMPLETE":
            for run in runs:
                paths = self._home.run(run.id)  # a run without a directory is not done again
                if paths.root.is_dir() and read_result(paths) is None:
                    self._lost.append((run, str(stored.number)))
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

    def _ask(self) -> OpenTrial | None:
        """Return a new trial. If its parameters are invalid together, record it as failed and return None."""
        suggested = self._study.suggest()
        try:
            runs = self._search.runs_of(suggested.params, self._search.seeds)
        except SpecError as error:
            stored = self._study.add(suggested, [])
            self._study.give_up(stored.number, "FAIL", error.what, 0)
            return None
        stored = self._study.add(suggested, [run.id for run in runs])
        self.runs += runs
        trial = self._open[stored.number] = OpenTrial(self._home, self._search, stored, runs)
        return trial

    def _start(self, trial: OpenTrial) -> list[Run]:
        """Return the runs of the trial to do now, their directories made. Runs done for another trial count at once."""
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
        """Prune bad trials, if the search has a pruner; at most every JUDGE_EVERY seconds."""
        if self._search.pruner.name == "none" or time.monotonic() - self._judged < JUDGE_EVERY:
            return
        self._judged = time.monotonic()
        for trial in list(self._open.values()):
            self._prune_if_bad(trial)

    def _prune_if_bad(self, trial: OpenTrial) -> bool:
        """Judge the steps not judged yet; end the trial if it is bad or has diverged. Return True if it has ended."""
        try:
            reason = trial.judge(self._study, self._pruner) if self._search.pruner.name != "none" else ""
            if not reason and trial.is_over:
                trial.values()
            if reason:
                self._study.give_up(trial.number, "PRUNED", reason, trial.judged_iterations())
        except Diverged as error:
            reason = error.what
            self._study.give_up(trial.number, "FAIL", reason, trial.iterations())
        if reason:
            self._open.pop(trial.number, None)
            self._end_runs(trial.runs, reason)
        return bool(reason)

    def _settle(self, trial: OpenTrial) -> None:
        """Judge the trial, then tell the study its values if its runs are all done."""
        if not self._prune_if_bad(trial) and trial.is_over:
            self._study.tell(trial.number, trial.values(), trial.iterations())
            self._open.pop(trial.number, None)
            if self._on_end is not None:
                self._on_end(progress(self._study, self._search, trial.number))

    def _end_runs(self, runs: Sequence[Run], reason: str) -> None:
        """Stop the runs of a pruned trial, except those that another open trial needs."""
        wanted = {run.id for trial in self._open.values() for run in trial.runs}
        for run in runs:
            paths = self._home.run(run.id)
            if run.id not in wanted and run_state(paths).state in (RunStatus.RUNNING, RunStatus.QUEUED):
                request_prune(paths, reason)

    def _confirm(self) -> list[Run]:
        """Return the runs of the winner on fresh seeds; with several objectives there may be several winners."""
        winners = self._study.winners()
        self._confirming = [
            run for winner in winners for run in self._search.runs_of(winner.params, self._search.confirm)
        ]
        self.runs += self._confirming
        for run in self._confirming:
            self._prepare(run, CONFIRM)
        return self._confirming
