"""A search as Tune's search algorithm: it suggests the trials of plat's study, each with a submission for its runs.

A proposal is in the study before its trial begins. Another attempt of this driver, or the next command, takes up the
study: ended trials keep their state, open ones resume, and no run is executed twice.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray.tune.search import Searcher

from plat.dispatch.admission import Admission
from plat.dispatch.ray.driver import main
from plat.dispatch.ray.jobs import Cluster
from plat.dispatch.ray.ray_settings import RaySettings, read_settings
from plat.dispatch.ray.search_dispatcher import note_error
from plat.dispatch.ray.tuner import LOOK_EVERY, Tasks, run_trials, stop_tasks
from plat.dispatch.setting import STOP
from plat.dispatch.submitting import hand_over
from plat.dispatch.sweep_ends import RunEnd
from plat.errors import PlatError
from plat.runner.failures import RETRIES
from plat.search.ray.scheduler import Packet, StudyScheduler, TunedTrials
from plat.search.ray.trainable import TRIAL, execute_trial
from plat.search.search_file import read_searches
from plat.search.study import Study, open_study
from plat.spec.identity.run_identity import snapshot
from plat.store.coordination.submissions import Submission, open_record, open_submissions
from plat.store.run_directory.state import run_state
from plat.trainer.resources import Resources
from plat.words.outcomes import INTERRUPTED, failed, is_failure
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run


class TunedSearch(Tasks):
    """Suggest the trials of one search, which `add` gets as its submission (see `search_dispatcher`).

    `submissions` are those of its trials, which it makes itself.
    """

    def add(self, submission: Submission | None) -> None:
        """Take the submission of the search; None changes nothing."""
        if submission is not None:
            self._root = submission
            self._home = submission.home
            self._facts = submission.facts()
            self._packets: dict[str, Packet] = {}  # by trial id
            self._held: list[Packet] = []  # not begun, because others have their runs
            self._losses: Counter[str] = Counter()  # by run: how often its task was lost
            self._outcome: str | None = None

    def stop(self) -> None:
        """Ask for no further trial, and let the runs save and stop."""
        self._outcome = INTERRUPTED
        self.closed = True
        super().stop()

    def look(self) -> None:
        """Stop if `plat cancel` asks for it."""
        if (self._root.root / STOP).exists() and not self.closed:
            self.stop()

    def execute(self, folder: Path, jobs: int | None) -> None:
        """Execute the rest of the search as trials of one Tuner; its own `jobs` count. Tune's files are in `folder`."""
        self._job = folder.name
        os.chdir(self._facts["directory"])
        with self._guard():
            searches = read_searches(self._facts["file"], self._facts["overrides"])
            self._search = next(search for search in searches if search.name == self._facts["study"])
            with open_study(self._home, self._search) as study:
                self._execute(study, folder)
        self._root.note_over(self._outcome, "its driver has ended", 0)

    def _execute(self, study: Study, folder: Path) -> None:
        for submission in open_submissions(self._home):
            if submission.facts().get("search") == self._root.name:  # of an earlier attempt
                submission.note_over(failed("node"), "its driver was lost", 0)
        scheduler = StudyScheduler(self._search, study, self._guard)
        self._trials = scheduler.trials = TunedTrials(self._home, self._search, study, scheduler)
        self._admission = Admission(self._home, [self._search.experiment(self._trials.runs)], [], follows=True)
        run_trials(self, execute_trial, scheduler, folder, self._facts["jobs"])

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        """Keep an error of the block for the command that follows, and stop the search."""
        try:
            yield
        except PlatError as error:
            note_error(self._root, error)
            self.stop()
        except Exception as error:
            traceback.print_exc()
            what = f"the search has stopped at an error inside of it: {type(error).__name__}: {error}"
            fix = "the log has its place; `pruner: none`, or another `--on`, does without Tune's schedulers"
            note_error(self._root, PlatError(what, where=str(self._home.logs / "ray.txt"), fix=fix))
            self.stop()

    def suggest(self, trial_id: str) -> Any:
        """Return the config of the next trial, None if there is none now, and FINISHED if there will be none.

        Waits if no trial is live and others have the runs of the proposed ones: Tune would end without a live trial.
        """
        with self._guard():
            self.look()
            while not self.closed:
                config = self._next(trial_id)
                if config is not None or self.live:
                    return config
                if not self._held:
                    break
                time.sleep(LOOK_EVERY)
                self.look()
        self.closed = True
        return Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Settle the runs of a trial that has ended."""
        submission, _ = self.live[trial_id]
        super().on_trial_complete(trial_id, result, error)
        submission.note_over(INTERRUPTED, "its trial has ended", 0)
        submission.note_over(None, "its task is over")
        packet, outcome = self._packets.pop(trial_id), submission.end(0)["outcome"]
        with self._guard():
            for run in packet.runs:
                self._settle(packet, run, outcome)

    def _settle(self, packet: Packet, run: Run, outcome: str | None) -> None:
        """Tell the trials how a run has ended; it is begun again if its trial was stopped for itself, or lost its node.

        outcome  of the task
        """
        now = run_state(self._home.run(run.id))
        is_stopped = packet.trial is not None and self._trials.open_trial(packet.trial.number) is None
        if now.state in (RunStatus.DONE, RunStatus.FAILED):
            self._trials.ended(RunEnd(run, now.state, now.outcome, now.reason))
        elif is_stopped:
            self._trials.put_back(run)
        elif not is_failure(outcome):
            self._trials.ended(RunEnd(run, RunStatus.INTERRUPTED, now.outcome, now.reason))
        elif self._losses[run.id] < RETRIES["node"]:
            self._losses[run.id] += 1
            self._trials.put_back(run)
        else:
            self._trials.ended(RunEnd(run, RunStatus.FAILED, outcome))

    def _next(self, trial_id: str) -> dict[str, Any] | None:
        """Return the config of the next trial whose runs can be submitted; None if there is none now."""
        held, self._held = self._held, []
        while packets := held or self._trials.packets():
            held = []
            for position, packet in enumerate(packets):
                config = self._begin(trial_id, packet)
                if config is not None:
                    self._held += packets[position + 1 :]
                    return config
        return None

    def _begin(self, trial_id: str, packet: Packet) -> dict[str, Any] | None:
        """Submit the runs of a packet and return the config of its trial; None if none is to be executed now.

        A packet whose runs others have is held. One whose trial has ended is dropped.
        """
        ends = self._admission.judge(packet.runs)
        for end in ends:
            if end.state != RunStatus.MISSING:
                self._trials.ended(end)
        runs = [end.run for end in ends if end.state == RunStatus.MISSING]
        if packet.trial is not None and self._trials.open_trial(packet.trial.number) is None:
            for run in runs:
                self._trials.put_back(run)
            return None
        if not runs:
            return None
        problem = "" if self._settings.elastic else self._cluster.never_fits(self._needed(runs[0]))
        if problem:
            for run in runs:
                self._trials.ended(RunEnd(run, RunStatus.FAILED, problem))
            return None
        submission, taken = self._submit(runs)
        if submission is None:
            self._held.append(Packet(packet.trial, tuple(runs)))
            return None
        for run in runs:
            if run.id not in taken:
                self._trials.put_back(run)
        begun = [run for run in runs if run.id in taken]
        self.live[trial_id], self._packets[trial_id] = (submission, 0), Packet(packet.trial, tuple(begun))
        if packet.trial is not None:
            self._trials.begin(packet.trial)
        curve_runs = packet.trial.runs if packet.trial else begun
        return {
            "submission": str(submission.root),
            "task": 0,
            "needs": self._request(runs[0]),
            TRIAL: packet.trial.number if packet.trial else None,
            "axes": dict(runs[0].axes),  # for Tune's own tools
            "curve": {
                "runs": {run.id: run.name for run in curve_runs},
                "objective": asdict(self._search.objectives[0]),
                "pruner": {"name": self._search.pruner.name, "options": dict(self._search.pruner.options)},
                "iterations": self._search.iterations,
            },
        }

    def _submit(self, runs: Sequence[Run]) -> tuple[Submission | None, set[str]]:
        """Submit the runs that no other submission has as one task; return (None, {}) if others have all of them."""
        free = [run for run in runs if open_record(self._home.run(run.id)) is None]
        for run in free:
            snapshot(self._home.code, run.trainer, run.config, run.identity)  # an edit from now on does not reach it
            self._home.run(run.id).cancel.unlink(missing_ok=True)
        if not free:
            return None, set()
        facts = {key: self._facts[key] for key in ("session", "address", "local", "owner", "jobs", "directory")}
        facts |= {"search": self._root.name, "slots": 1, "needs": [self._request(free[0])]}
        place = {key: self._facts[key] for key in ("scheduler", "cluster")}
        records = hand_over(self._home, place, [free], lambda *_: facts, lambda *_: self._job)
        if not records:
            return None, set()
        submission = next(iter(records.values())).submission
        self.submissions.append(submission)
        if self.closed:  # `stop` may have come before the line above
            stop_tasks(submission)
        return submission, set(records)

    @cached_property
    def _settings(self) -> RaySettings:
        return read_settings(self._facts["settings"])

    @cached_property
    def _cluster(self) -> Cluster:
        facts = self._facts
        return Cluster(facts["session"], facts["address"], tuple(facts["nodes"]), facts["owner"])

    def _needed(self, run: Run) -> Resources:
        return self._settings.resources(run.resources)

    def _request(self, run: Run) -> dict[str, float]:
        return self._cluster.request(self._needed(run), self._settings.elastic)


# The program that holds the Tuner of a search; its arguments are those of `plat.dispatch.ray.driver`.


def _search() -> Any:
    from plat.search.ray.tuned_search import TunedSearch

    return TunedSearch()


if __name__ == "__main__":
    main(sys.argv[1:], _search)
