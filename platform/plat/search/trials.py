"""The trials of a search: asked of the study one by one, ended with their values, and the winner confirmed.

Promised: a trial without values is resumed with the same parameters and runs before a new one is asked for; its values
are told once; done runs (of an earlier trial, search or sweep) are not repeated. If values are told in the same order,
the same search asks for the same trials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from plat.dispatch.sweep_ends import RunEnd
from plat.errors import SpecError
from plat.search.following import progress
from plat.search.search import Search
from plat.search.study import STEPS, Study
from plat.search.trial import OpenTrial
from plat.search.trial_curve import Diverged
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

CONFIRM = "confirm"  # replaces the trial's number in a run that confirms the winner


class Trials:
    """The open trials of a study and what is left to do. A subclass gives out the runs, and may judge open trials.

    runs    every run so far
    on_end  called with a sentence when a trial is complete: its values, and the best so far
    """

    def __init__(self, home: Home, search: Search, study: Study, on_end: Callable[[str], None] | None = None) -> None:
        self.runs: list[Run] = []
        self._home = home
        self._search = search
        self._study = study
        self._on_end = on_end
        self._open: dict[int, OpenTrial] = {}
        self._under_way: set[str] = set()
        self._done: set[str] = set()
        self._lost: list[tuple[Run, str]] = []  # runs of complete trials that lost their result, and the trial's number
        self._given_up: set[str] = set()  # interrupted, cancelled, or held elsewhere: not tried again
        self._confirming: list[Run] | None = None
        for stored in study.trials():
            self._take_up(stored)

    @property
    def exhausted(self) -> bool:
        """True if no trial is open or left to ask for, and the runs that confirm the winner were given out."""
        return not self._open and not self._lost and not self._may_ask() and self._confirming is not None

    @property
    def nothing_left(self) -> bool:
        """True if every trial is over and no run is to be executed, also none that confirms the winner."""
        if self._open or self._lost or self._may_ask():
            return False
        fresh = (self._search.runs_of(winner.params, self._search.confirm) for winner in self._study.winners())
        return all(read_result(self._home.run(run.id)) is not None for runs in fresh for run in runs)

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
                reason = f"{end.run.name}: {end.outcome}"
                self._study.give_up(trial.number, "FAIL", reason, trial.curve.iterations())
                self._open.pop(trial.number, None)
        elif end.outcome != PRUNED:
            self._given_up.add(end.run.id)

    def _judge(self, trial: OpenTrial) -> str:
        """Return why an open trial is pruned, "" if it is not."""
        return ""

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

    def _start(self, trial: OpenTrial, most: int | None = None) -> list[Run]:
        """Return the runs of a trial to do now, with their directories made; of those not done, only the first `most`.

        Runs done for another trial count at once.
        """
        trial.done.update(run.id for run in trial.runs if run.id in self._done)
        if trial.is_over:
            self._settle(trial)
            return []
        begun = self._under_way | self._given_up
        given = [run for run in trial.wanted()[:most] if run.id not in begun]
        for run in given:
            self._prepare(run, str(trial.number))
        return given

    def _start_lost(self) -> list[Run]:
        """Return the runs of complete trials whose result is gone, once."""
        given = [run for run, _ in self._lost]
        for run, number in self._lost:
            self._prepare(run, number)
        self._lost.clear()
        return given

    def _prepare(self, run: Run, number: str) -> None:
        create(self._home, run, self._search.name, paper=self._search.paper)
        note_trial(self._home, run.id, self._search.name, number)
        self._under_way.add(run.id)

    def _settle(self, trial: OpenTrial) -> None:
        """Judge the trial, then tell the study its values if its runs are all done."""
        if not self._ends(trial) and trial.is_over:
            self._study.tell(trial.number, trial.values(), trial.curve.iterations())
            self._open.pop(trial.number, None)
            if self._on_end is not None:
                self._on_end(progress(self._study, self._search, trial.number))

    def _ends(self, trial: OpenTrial) -> bool:
        """Judge the trial; end it if it is bad or has diverged. Return True if it has ended."""
        try:
            reason = self._judge(trial)
            if not reason and trial.is_over:
                trial.values()
        except Diverged as error:
            self._end(trial, "FAIL", error.what, trial.curve.iterations())
            return True
        if reason:
            self._end(trial, "PRUNED", reason, trial.curve.seen_iterations())
        return bool(reason)

    def _end(self, trial: OpenTrial, state: Literal["PRUNED", "FAIL"], reason: str, iterations: int) -> None:
        """End a trial without values: first in the study, then its runs."""
        self._study.give_up(trial.number, state, reason, iterations)
        self._open.pop(trial.number, None)
        self._end_runs(trial.runs, reason)

    def _end_runs(self, runs: Sequence[Run], reason: str) -> None:
        """Stop the runs of a trial that has ended, except those that another open trial needs."""
        wanted = {run.id for trial in self._open.values() for run in trial.runs}
        for run in reversed(runs):  # the one that runs comes after those that wait for it
            paths = self._home.run(run.id)
            if run.id not in wanted and run_state(paths).state in (RunStatus.RUNNING, RunStatus.QUEUED):
                request_prune(paths, reason)

    def _confirm(self) -> list[Run]:
        """Return the runs of the winner on fresh seeds, once all trials are over, and only once; else [].

        With several objectives there may be several winners.
        """
        if self._open or self._may_ask() or self._confirming is not None:
            return []
        winners = self._study.winners()
        self._confirming = [
            run for winner in winners for run in self._search.runs_of(winner.params, self._search.confirm)
        ]
        self.runs += self._confirming
        for run in self._confirming:
            self._prepare(run, CONFIRM)
        return self._confirming
