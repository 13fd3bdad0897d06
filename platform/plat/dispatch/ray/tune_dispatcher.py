"""Hand runs to Ray Tune and follow them there (a Dispatcher).

On a running cluster the Jobs API starts a driver for each submission, which holds its Tuner; the runs continue without
this process. A private Ray on this machine ends with this process, after its runs have saved; its Tuner takes all
submissions of this process. Keeps the promises of `plat.dispatch.scheduled`; each run is handed to Ray by one submitter
only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plat.dispatch.decisions import Decision
from plat.dispatch.dispatcher import ENDED, REFUSED, Job, SchedulerError
from plat.dispatch.ray.jobs import DRIVER, NOWHERE, Cluster, JobsClient
from plat.dispatch.ray.ray_refresh import SCHEDULER, refresh
from plat.dispatch.ray.ray_settings import read_settings
from plat.dispatch.ray.trial import KILL
from plat.dispatch.scheduled import ScheduledDispatcher
from plat.dispatch.setting import Setting
from plat.dispatch.submitting import Work, chunks, hand_over, runs_worth
from plat.planning.cost import History
from plat.processes.own_process import handle_of, wait_for_end
from plat.store.coordination.submissions import Record, Submission
from plat.trainer.resources import Resources

WORTH_A_TRIAL = 120.0  # seconds of work; shorter runs share a trial, which loads torch once


class TuneDispatcher(ScheduledDispatcher):
    """Dispatcher for Ray. `setting.jobs` is the most trials at a time."""

    scheduler = SCHEDULER
    driver = DRIVER  # the module of the program that holds the Tuner

    def __init__(self, setting: Setting) -> None:
        """Raise SpecError for a wrong setting. Ray is asked when the first run is missing."""
        settings = read_settings(setting.cluster)
        super().__init__(setting, settings.refresh)
        self._settings = settings
        self._log = setting.home.logs / "ray.txt"
        self._jobs: JobsClient | None = None  # of a cluster
        self._private: PrivateDriver | None = None
        self._cluster = NOWHERE
        self._lost_since: float | None = None
        self._own: set[str] = set()  # the submissions that this process has made
        self.detachable = not settings.is_local
        self.farewell = "stopped following: the runs that Ray has continue, and the same command follows them again"
        if settings.is_local:
            self.farewell = "stopping: runs are saving their state (again to kill them); the same command resumes"

    def active(self) -> bool:
        """Return True while a run has not ended; after `stop`, while runs of a private Ray are saving."""
        if self.stopping and self._settings.is_local:
            return self._private is not None and bool(self._own_records())
        return super().active()

    def stop(self) -> None:
        """Stop following runs on a cluster; ask runs of a private Ray to save and stop."""
        super().stop()
        if self._private is not None:
            self._private.stop()
            self._refreshed = None

    def kill(self) -> None:
        """End the runs of a private Ray at once; the next sweep resumes from the newest checkpoints."""
        super().kill()
        if self._private is not None:
            for record in self._own_records().values():
                (record.submission.root / KILL).touch()

    def close(self, patience: float = 60.0) -> None:
        """Leave the cluster, or end a private Ray after its runs have saved; wait for that at most `patience` s."""
        if self._private is not None:
            self._private.close(patience)
        self._private = self._jobs = None

    def _own_records(self) -> dict[str, Record]:
        return {job: record for job, record in self._followed.items() if record.submission.name in self._own}

    def _refresh(self) -> bool:
        try:
            self._connect()
            refresh(self.home, self._cluster, self._jobs, self._setting.steal)
        except SchedulerError as error:
            self._lose_cluster(error)
            return False
        self._lost_since = None
        if self.slots is None:
            self.slots = self._cluster.room_for(self._typical_needs())
        return True

    def _typical_needs(self) -> list[Resources]:
        """Return the needs of runs for which the number of slots is estimated."""
        return [self._needed(job.run) for job in self.jobs.values()]

    def _connect(self) -> None:
        """Find the cluster, or start a private Ray, if there is none or it has ended."""
        if not self._settings.is_local:
            self._jobs = self._jobs or JobsClient(self._settings)
            self._cluster = self._jobs.cluster
        elif not self.stopping and (self._private is None or self._private.ended):
            self.close()
            self._private = PrivateDriver(self.driver, self._setting.jobs, self._settings.connect_within, self._log)
            self._cluster = self._private.cluster

    def _lose_cluster(self, error: SchedulerError) -> None:
        """Connect again at the next refresh.

        Raises `error` if it is certain, or if Ray never answered, or has not answered for `connect_within` seconds.
        """
        self._jobs = None
        now = time.monotonic()
        if self._lost_since is None:
            self._lost_since = now
            self.notices.append(f"{error.what}; asking again")
        if error.certain or self._cluster is NOWHERE or now - self._lost_since > self._settings.connect_within:
            raise error

    def _hand_over(self, ready: list[Job]) -> None:
        fitting: dict[str, Job] = {}
        for job in ready:
            problem = "" if self._settings.elastic else self._cluster.never_fits(self._needed(job.run))
            if problem:
                self._apply(job, Decision(ENDED, REFUSED, problem))
            else:
                fitting[job.run.id] = job
        if fitting:
            size = self._runs_per_task()
            packed = chunks([job.run for job in fitting.values()], self._needed, lambda runs: size, len(fitting))
            self._adopt_or_put_back(
                list(fitting.values()), self._submit([runs for each in packed for runs in each.tasks])
            )

    def _submit(self, tasks: Sequence[Sequence[Work]]) -> dict[str, Record]:
        is_local, cluster = self._settings.is_local, self._cluster
        place = {"scheduler": SCHEDULER, "cluster": "a local Ray" if is_local else cluster.address}
        elastic = self._settings.elastic
        needs = {run.id: cluster.request(self._needed(run), elastic) for runs in tasks for run in runs}

        def describe(submission: Submission, ids: list[list[str]], comment: str) -> dict[str, Any]:
            return {
                "session": cluster.session,
                "address": cluster.address,
                "local": is_local,
                "owner": cluster.owner,
                "slots": 1,
                "jobs": self._setting.jobs,
                "needs": [needs[members[0]] for members in ids],
                "directory": os.getcwd(),
                **self._further_facts(),
            }

        def call(submission: Submission, ids: list[list[str]], lock: int) -> str:
            self._own.add(submission.name)
            if self._private is not None:
                return self._private.submit(submission)
            assert self._jobs is not None
            return self._jobs.submit(submission, 1)

        records: dict[str, Record] = {}
        try:
            records = hand_over(self.home, place, tasks, describe, call)
        except SchedulerError as error:
            self._lose_cluster(error)
        return records

    def _further_facts(self) -> dict[str, Any]:
        """Return further entries of the submission.json of a submission."""
        return {}

    def _needed(self, run: Work) -> Resources:
        return self._settings.resources(run.resources)

    def _runs_per_task(self) -> int:
        """Return the setting, else round(WORTH_A_TRIAL / mean expected seconds), with at least 3 tasks per slot."""
        if self._settings.runs_per_task:
            return self._settings.runs_per_task
        runs = [job.run for job in self.jobs.values()]
        seconds = History.read(self.home.history).seconds
        worth = runs_worth(runs, lambda run: seconds(run, 0), WORTH_A_TRIAL)
        return max(1, min(worth, len(runs) // (3 * (self.slots or 1))))


# The private Ray of a command: a child process that holds it, and the Tuner (see `driver`).


class PrivateDriver:
    """A private Ray on this machine. It ends with this process, after its runs have saved.

    module  the program, `plat.dispatch.ray.driver` or one that is built on it
    jobs    the most trials at a time; None: as many as fit
    within  seconds that it has to start; else SchedulerError
    log     file that collects the output of Ray
    """

    def __init__(self, module: str, jobs: int | None, within: float, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        arguments = ["--private", str(jobs or 0), str(within)]
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-u", "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={"RAY_BACKEND_LOG_LEVEL": "error", **os.environ, "PYTHONWARNINGS": "ignore"},
                start_new_session=True,
            )
        try:
            assert self._process.stdout is not None
            with self._process.stdout as output:
                facts = json.loads(output.readline())
        except ValueError as error:  # it has ended without a line
            self.close(10.0)
            fix = "the log says why; `ray start --head` tries it by hand"
            raise SchedulerError("Ray did not start on this machine", where=str(log), fix=fix) from error
        self.cluster = Cluster(**facts)

    def submit(self, submission: Submission) -> str:
        """Give the Tuner the tasks of a submission; return the job number: its name. SchedulerError if it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{submission.root.absolute()}\n".encode())
            self._process.stdin.flush()
        except OSError as error:
            raise SchedulerError(f"the private Ray has ended: {error}", certain=True) from error
        return submission.name

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ask the runs to save and stop; then the process ends."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()

    def close(self, patience: float) -> None:
        """Stop, and wait at most `patience` seconds for the end; then kill it and its Ray."""
        self.stop()
        handle = handle_of(self._process.pid)
        if handle is not None and self._process.poll() is None:
            if not wait_for_end(handle, patience):
                os.killpg(self._process.pid, signal.SIGKILL)
            os.close(handle)
        self._process.poll()
