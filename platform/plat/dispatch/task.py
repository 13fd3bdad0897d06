"""A task: the runs of one scheduler job, executed by a local dispatcher in the job's process.

Only runs that still belong to this task are executed, each under its lease. torch is imported once for all of them.
Neither the internet nor MLflow is needed.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from plat.dispatch.local.local_dispatcher import LocalDispatcher
from plat.dispatch.setting import Setting
from plat.errors import HomeError, PlatError
from plat.spec.expansion.run import Run
from plat.store.coordination.submissions import (
    NAME_VARIABLE,
    RESTART_VARIABLE,
    TASK_VARIABLE,
    Submission,
    newest_record,
)
from plat.store.run_directory.attempts import record_failure
from plat.store.run_directory.run_files import read_run
from plat.store.run_directory.state import run_state
from plat.words.outcomes import ENDED_ON_REQUEST, failed, is_failure
from plat.words.states import RunStatus

TICK = 0.5  # seconds; a signal ends the wait at once


class Task:
    """One start of one task of a submission. `restart`: number of earlier starts.

    The constructor sets environment variables of this process, from which a lease gets the name of the task.
    """

    def __init__(self, submission: Submission, number: int, restart: int) -> None:
        self.submission = submission
        self.home = submission.home
        self.number = number
        self.signals: list[int] = []
        self.started = time.monotonic()
        self.manifest: dict[str, Any] = {}
        os.environ[NAME_VARIABLE] = submission.name
        os.environ[TASK_VARIABLE] = str(number)
        os.environ[RESTART_VARIABLE] = str(restart)

    def do_runs(self, *stop_signals: int) -> list[Run]:
        """Execute the runs until one of the signals arrives; return those that another start would continue.

        Runs that are cancelled or belong to another submission are skipped, and a line about each is printed. If the
        whole submission was given up, none is executed and [] is returned. A later SIGINT ends the runs at once. The
        signals stay handled after the call. Raises HomeError if submission.json is missing or damaged.
        """
        for number in stop_signals:
            signal.signal(number, lambda received, frame: self.signals.append(received))
        manifest = self.submission.facts()
        if not manifest:
            raise HomeError("the submission's list of tasks is missing or damaged", where=str(self.submission.manifest))
        if self.submission.is_over(self.number):
            print("this submission is over and no longer has its runs: nothing to do")
            return []
        self.manifest = manifest
        runs = self._runs(manifest["tasks"][self.number])
        self._execute(runs)
        return [run for run in runs if self.is_unfinished(run)]

    def is_unfinished(self, run: Run) -> bool:
        """Return True if another start of the task would continue the run: not done, failed, cancelled or pruned."""
        now = run_state(self.home.run(run.id))
        return now.state != RunStatus.DONE and not is_failure(now.outcome) and now.outcome not in ENDED_ON_REQUEST

    def _runs(self, ids: list[str]) -> list[Run]:
        """Return the runs that still belong to this task and are not cancelled."""
        runs = []
        for run_id in ids:
            paths = self.home.run(run_id)
            record = newest_record(paths)
            if record is None or (record.submission.name, record.task) != (self.submission.name, self.number):
                print(f"{run_id}: it was handed to another submission")
            elif paths.cancel.exists():
                print(f"{run_id}: cancelled before it began")
            else:
                try:
                    runs.append(read_run(paths))
                except PlatError as error:
                    record_failure(paths, failed("error"), error.what, error.render())
                    print(error.render())
        return runs

    def _execute(self, runs: list[Run]) -> None:
        slots = int(self.manifest.get("slots", 1))
        dispatcher = LocalDispatcher(Setting(self.home, lambda run: self.home.run(run.id), slots), heeds_marks=True)
        try:
            dispatcher.submit(runs)
            while dispatcher.active():
                if self.signals and not dispatcher.stopping:
                    name = signal.Signals(self.signals[0]).name
                    print(f"asked to stop ({name}): the runs save their state", flush=True)
                    dispatcher.stop()
                if signal.SIGINT in self.signals[1:]:
                    dispatcher.kill()
                for change in dispatcher.poll(TICK):
                    words = f"{change.state} {change.outcome or ''} {change.title}: {change.reason}"
                    print(f"[{time.monotonic() - self.started:8.1f} s] {words}", flush=True)
        finally:
            dispatcher.close()
