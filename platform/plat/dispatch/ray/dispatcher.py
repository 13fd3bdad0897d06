"""Hands runs to Ray and follows them there (a Dispatcher): each task is a detached actor (see `actor`).

On a running cluster nothing here needs to live for a run to go on: Ray starts a task again when its node is lost, and
the same command follows what goes on there. A Ray of our own, on this machine, ends with this process, after its runs
have saved. Promised, besides what `plat.dispatch.scheduled` promises: a run is handed to Ray by one submitter only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.dispatch.api import ENDED, REFUSED, Job, SchedulerError
from plat.dispatch.cancel import cancel_runs
from plat.dispatch.decisions import Decision
from plat.dispatch.ray.capacity import cpus_each, never_fits, room_for_runs
from plat.dispatch.ray.client import Cluster, RayClient
from plat.dispatch.ray.refresh import SCHEDULER, actor_name, refresh
from plat.dispatch.ray.settings import RaySettings, read_settings
from plat.dispatch.registry import Setting, cannot_detach
from plat.dispatch.scheduled import ScheduledDispatcher
from plat.dispatch.submitting import hand_over
from plat.plan.cost import History
from plat.store.run_directory import lease
from plat.store.submissions import Record, Submission
from plat.trainer.resources import Resources

if TYPE_CHECKING:
    from plat.spec.runs import Run

NOWHERE = Cluster("", "", {}, ())  # before Ray has answered
MOST_ACTORS = 500  # that wait or run at once; the rest is handed over when there is room
WORTH_AN_ACTOR = 120.0  # seconds of work; shorter runs share an actor, which loads torch and verl once
INHERITED = ("PYTHONPATH", "PLAT_", "HF_")  # variables that a task gets from whoever asked for it, not from Ray's nodes


class RayDispatcher(ScheduledDispatcher):
    """`setting.jobs` caps how many actors there are at once; this process then feeds them."""

    scheduler = SCHEDULER

    def __init__(self, setting: Setting, settings: RaySettings) -> None:
        super().__init__(setting, settings.refresh, setting.jobs)
        self._settings = settings
        self._log = setting.home.logs / "ray.txt"
        self._client: RayClient | None = None
        self._cluster = NOWHERE
        self._lost_since: float | None = None
        self._submitted = 0.0
        self._own: set[str] = set()  # the submissions that this process has made
        self.detachable = not settings.is_local
        self.farewell = "following no more: what Ray has goes on there, and the same command follows it again"
        if settings.is_local:
            self.farewell = "stopping: runs are saving their state (again to kill them); the same command goes on"

    def active(self) -> bool:
        """After `stop`, a Ray of our own is followed until its runs have saved."""
        if self.stopping and self._settings.is_local:
            return self._client is not None and bool(self._own_records())
        return super().active()

    def handed_over(self) -> bool:
        """Not before Ray was asked once more after the last submission: then it surely has its actors."""
        return super().handed_over() and (self._refreshed or 0.0) > self._submitted

    def stop(self) -> None:
        """On a cluster, follow no more; runs of a Ray of our own are asked to save and stop."""
        super().stop()
        if self._settings.is_local:
            self._end_actors(RayClient.stop)
            self._refreshed = None

    def kill(self) -> None:
        """End at once what a Ray of our own does; the next sweep goes on from the newest checkpoints."""
        super().kill()
        if not self._settings.is_local:
            return
        self._end_actors(RayClient.kill)
        for job_id, record in self._own_records().items():
            record.submission.note_over("interrupted", "killed by a second interrupt", record.task)
            pid = lease.holder(self.home.run(self.jobs[job_id].run.id))
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Leave the cluster, or end a Ray of our own after its runs have saved."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _own_records(self) -> dict[str, Record]:
        """Of the runs that are followed, those that this process has handed over, by job."""
        return {job: record for job, record in self._followed.items() if record.submission.name in self._own}

    def _end_actors(self, end: Callable[[RayClient, list[str]], None]) -> None:
        """Stop or kill our actors; where Ray itself is gone, the kernel has asked their runs to save already."""
        if self._client is None:
            return
        records = self._own_records().values()
        try:
            end(self._client, sorted({actor_name(record.submission, record.task) for record in records}))
        except SchedulerError:
            self._client.close(0.0)
            self._client = None

    def _cancel(self, run_ids: Sequence[str]) -> None:
        cancel_runs(self.home, run_ids)

    # --- asking Ray ---------------------------------------------------------------------------------------------------

    def _refresh(self) -> bool:
        try:
            if self._client is None:
                self._client = RayClient(self._settings, self._log)
                self._cluster = self._client.cluster
            unneeded = refresh(self.home, self._cluster, self._client.names, self._setting.steal)
            if unneeded:
                self._client.kill(unneeded)
        except SchedulerError as error:
            self._lose_client(error)
            return False
        self._lost_since = None
        if self.slots is None:
            needed = [self._needed(job.run) for job in self.jobs.values()]
            self.slots = room_for_runs(needed, self._cluster.nodes)
        return True

    def _lose_client(self, error: SchedulerError) -> None:
        """Look for Ray again at the next refresh, for as long as it had at first; a Ray of our own is started anew."""
        if self._client is not None:
            self._client.close(0.0)
            self._client = None
        now = time.monotonic()
        if self._lost_since is None:
            self._lost_since = now
            self.notices.append(f"{error.what}; asking again")
        if self._cluster is NOWHERE or now - self._lost_since > self._settings.connect_within:
            raise error

    # --- handing over -------------------------------------------------------------------------------------------------

    def _room(self) -> int:
        under_way = len({(record.submission.name, record.task) for record in self._followed.values()})
        return max(0, (self._setting.jobs or MOST_ACTORS) - under_way) * self._runs_per_task()

    def _hand_over(self, ready: list[Job]) -> None:
        assert self._client is not None
        classes: dict[Resources, list[Job]] = {}
        for job in ready:
            needed = self._needed(job.run)
            problem = "" if self._settings.elastic else never_fits(needed, self._cluster.nodes)
            if problem:
                self._apply(job, Decision(ENDED, REFUSED, problem))
            else:
                classes.setdefault(needed, []).append(job)
        size = self._runs_per_task()
        for needed, jobs in classes.items():
            if self._client is None:  # it went away just now
                self._to_submit += jobs
                continue
            runs = [job.run for job in jobs]
            records = self._submit(needed, [runs[start : start + size] for start in range(0, len(runs), size)])
            self._adopt_or_put_back(jobs, records)

    def _submit(self, needed: Resources, tasks: Sequence[Sequence[Run]]) -> dict[str, Record]:
        client, cluster = self._client, self._cluster
        assert client is not None
        place = {"scheduler": SCHEDULER, "cluster": "a local Ray" if self._settings.is_local else cluster.address}
        facts = {
            "session": cluster.session,
            "address": cluster.address,
            "local": self._settings.is_local,
            "owner": cluster.owner,
            "slots": 1,
        }

        def call(submission: Submission, ids: list[list[str]], lock: int) -> str:
            self._own.add(submission.name)
            client.start([self._actor(submission, number, needed) for number in range(len(ids))])
            return submission.name

        records: dict[str, Record] = {}
        try:
            records = hand_over(self.home, place, tasks, lambda *_: facts, call)
        except SchedulerError as error:
            self._lose_client(error)
        self._submitted = time.monotonic()
        return records

    def _actor(self, submission: Submission, number: int, needed: Resources) -> dict[str, Any]:
        """What `bridge.Bridge.start` is told about one actor."""
        cpus = needed.threads if self._settings.elastic else min(needed.threads, cpus_each(needed, self._cluster.nodes))
        return {
            "name": actor_name(submission, number),
            "folder": str(submission.root.absolute()),
            "number": number,
            "nodes": needed.nodes,
            "cpus": cpus,
            "gpus": needed.gpus,
            "memory": needed.memory_mb * 2**20,
            "environment": {k: v for k, v in os.environ.items() if k.startswith(INHERITED)},
            "directory": os.getcwd(),
        }

    def _needed(self, run: Run) -> Resources:
        return self._settings.resources(run.resources)

    def _runs_per_task(self) -> int:
        """As asked for; else as many as are worth an actor, as long as every place in the cluster has several."""
        if self._settings.runs_per_task:
            return self._settings.runs_per_task
        runs = [job.run for job in self.jobs.values()]
        history = History.read(self.home.history)
        expected = [seconds for run in runs if (seconds := history.seconds(run, 0)) is not None]
        if not expected:
            return 1
        worth = round(WORTH_AN_ACTOR / max(1.0, sum(expected) / len(expected)))
        return max(1, min(worth, len(runs) // (3 * (self.slots or 1))))


def located(cluster: Sequence[str], files: Sequence[Path]) -> Sequence[str]:
    """For `plat.dispatch.registry`: Ray has no profiles."""
    return cluster


def check_place(cluster: Sequence[str], detach: bool) -> None:
    """For `plat.dispatch.registry`: SpecError for a wrong setting. A Ray of our own cannot be left."""
    if read_settings(cluster).is_local and detach:
        raise cannot_detach(SCHEDULER)


def check_reachable(cluster: Sequence[str]) -> None:
    """For `plat.dispatch.registry`: SchedulerError where no cluster answers. A Ray of our own is started later."""
    settings = read_settings(cluster)
    if settings.is_local:
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            RayClient(settings, Path(folder) / "ray.txt").close()
        except SchedulerError as error:
            error.where = f"the address of the Ray cluster ({settings.address})"  # and not a log that is gone
            raise


def end_tasks(tasks: Sequence[tuple[Submission, int]]) -> None:
    """For `plat.dispatch.registry`. A task that has begun sees the marks of its runs; one that begins later sees that
    it is over, and leaves."""
    for submission, task in tasks:
        if not submission.starts(task).exists():
            submission.note_over("cancelled", "cancelled", task)


def open_dispatcher(setting: Setting) -> RayDispatcher:
    """For `plat.dispatch.registry`. SpecError for a wrong setting. Ray is asked when the first run is missing."""
    return RayDispatcher(setting, read_settings(setting.cluster))
