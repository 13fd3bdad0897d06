"""Hand runs to Ray and follow them there (a Dispatcher): each task is a detached actor (see `actor`).

On a running cluster, runs continue without this process, and Ray restarts a task whose node is lost. A private Ray on
this machine ends with this process, after its runs have saved. Keeps the promises of `plat.dispatch.scheduled`; each
run is handed to Ray by one submitter only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.dispatch.decisions import Decision
from plat.dispatch.dispatcher import ENDED, REFUSED, Job, SchedulerError
from plat.dispatch.dispatcher_spec import DispatcherSpec, Setting, cannot_detach
from plat.dispatch.packing import Chunk, chunks, runs_worth
from plat.dispatch.ray.bridge_client import Cluster, RayClient
from plat.dispatch.ray.ray_refresh import SCHEDULER, actor_name, refresh, task_states
from plat.dispatch.ray.ray_settings import RaySettings, read_settings
from plat.dispatch.scheduled import ScheduledDispatcher
from plat.dispatch.submitting import hand_over
from plat.extras import require_extra
from plat.planning.cost import History
from plat.store.coordination.submissions import Record, Submission
from plat.store.run_directory import lease
from plat.trainer.resources import Resources
from plat.words.outcomes import CANCELLED, INTERRUPTED

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run

NOWHERE = Cluster("", "", {}, ())  # before Ray has answered
MOST_ACTORS = 500  # that wait or run at once; the rest is handed over when there is room
WORTH_AN_ACTOR = 120.0  # seconds of work; shorter runs share an actor, which loads torch and verl once
INHERITED = ("PYTHONPATH", "PLAT_", "HF_")  # variables that a task gets from the submitting command, not from Ray


class RayDispatcher(ScheduledDispatcher):
    """Dispatcher for Ray. `setting.jobs` caps the number of actors; this process then submits runs as actors end."""

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
        self.farewell = "stopped following: the runs that Ray has continue, and the same command follows them again"
        if settings.is_local:
            self.farewell = "stopping: runs are saving their state (again to kill them); the same command resumes"

    def active(self) -> bool:
        """Return True while a run has not ended; after `stop`, while runs of a private Ray are saving."""
        if self.stopping and self._settings.is_local:
            return self._client is not None and bool(self._own_records())
        return super().active()

    def handed_over(self) -> bool:
        """Return True if Ray has every run that has not ended, and was asked again after the last submission."""
        return super().handed_over() and (self._refreshed or 0.0) > self._submitted

    def stop(self) -> None:
        """Stop following runs on a cluster; ask runs of a private Ray to save and stop."""
        super().stop()
        if self._settings.is_local:
            self._end_actors(at_once=False)
            self._refreshed = None

    def kill(self) -> None:
        """End the runs of a private Ray at once; the next sweep resumes from the newest checkpoints."""
        super().kill()
        if not self._settings.is_local:
            return
        self._end_actors(at_once=True)
        for job_id, record in self._own_records().items():
            record.submission.note_over(INTERRUPTED, "killed by a second interrupt", record.task)
            pid = lease.holder(self.home.run(self.jobs[job_id].run.id))
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def close(self, patience: float = 60.0) -> None:
        """Leave the cluster, or end a private Ray after its runs have saved; wait for that at most `patience` s."""
        if self._client is not None:
            self._client.close(patience)
            self._client = None

    def _own_records(self) -> dict[str, Record]:
        return {job: record for job, record in self._followed.items() if record.submission.name in self._own}

    def _end_actors(self, *, at_once: bool) -> None:
        """Stop or kill our actors. If Ray is gone, the kernel has already asked their runs to save."""
        if self._client is None:
            return
        records = self._own_records().values()
        try:
            names = sorted({actor_name(record.submission, record.task) for record in records})
            self._client.end(names, at_once=at_once)
        except SchedulerError:
            self.close(0.0)

    def _refresh(self) -> bool:
        try:
            if self._client is None:
                self._client = RayClient(self._settings, self._log)
                self._cluster = self._client.cluster
            unneeded = refresh(self.home, self._cluster, self._client.names, self._setting.steal)
            if unneeded:
                self._client.end(unneeded, at_once=True)
        except SchedulerError as error:
            self._lose_client(error)
            return False
        self._lost_since = None
        if self.slots is None:
            self.slots = self._cluster.room_for([self._needed(job.run) for job in self.jobs.values()])
        return True

    def _lose_client(self, error: SchedulerError) -> None:
        """Drop the client, so that the next refresh connects again.

        Raises `error` if Ray never answered, or has not answered for `connect_within` seconds.
        """
        self.close(0.0)
        now = time.monotonic()
        if self._lost_since is None:
            self._lost_since = now
            self.notices.append(f"{error.what}; asking again")
        if self._cluster is NOWHERE or now - self._lost_since > self._settings.connect_within:
            raise error

    def _room(self) -> int:
        under_way = len({(record.submission.name, record.task) for record in self._followed.values()})
        return max(0, (self._setting.jobs or MOST_ACTORS) - under_way) * self._runs_per_task()

    def _hand_over(self, ready: list[Job]) -> None:
        fitting: dict[str, Job] = {}
        for job in ready:
            problem = "" if self._settings.elastic else self._cluster.never_fits(self._needed(job.run))
            if problem:
                self._apply(job, Decision(ENDED, REFUSED, problem))
            else:
                fitting[job.run.id] = job
        size = self._runs_per_task()
        for chunk in chunks([job.run for job in fitting.values()], self._needed, lambda runs: size, len(ready)):
            jobs = [fitting[run.id] for runs in chunk.tasks for run in runs]
            if self._client is None:  # it was lost in this loop
                self._to_submit += jobs
            else:
                self._adopt_or_put_back(jobs, self._submit(chunk))

    def _submit(self, chunk: Chunk) -> dict[str, Record]:
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
            client.start([self._actor(submission, number, chunk.needed) for number in range(len(ids))])
            return submission.name

        records: dict[str, Record] = {}
        try:
            records = hand_over(self.home, place, chunk.tasks, lambda *_: facts, call)
        except SchedulerError as error:
            self._lose_client(error)
        self._submitted = time.monotonic()
        return records

    def _actor(self, submission: Submission, number: int, needed: Resources) -> dict[str, Any]:
        """Return the description of one actor for `bridge.Bridge.start`."""
        cpus = needed.threads if self._settings.elastic else min(needed.threads, self._cluster.cpus_each(needed))
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
        """Return the setting, else round(WORTH_AN_ACTOR / mean expected seconds), with at least 3 tasks per slot."""
        if self._settings.runs_per_task:
            return self._settings.runs_per_task
        runs = [job.run for job in self.jobs.values()]
        seconds = History.read(self.home.history).seconds
        worth = runs_worth(runs, lambda run: seconds(run, 0), WORTH_AN_ACTOR)
        return max(1, min(worth, len(runs) // (3 * (self.slots or 1))))


def check_settings(cluster: Sequence[str], detach: bool) -> None:
    """Raise SpecError for a wrong setting, if Ray is not installed, or for `detach` with a private Ray."""
    require_extra("ray", "--on ray", "--on")
    if read_settings(cluster).is_local and detach:
        raise cannot_detach()


def check_reachable(cluster: Sequence[str]) -> None:
    """Raise SchedulerError if no cluster answers, SpecError for a wrong setting. A private Ray is started later."""
    settings = read_settings(cluster)
    if settings.is_local:
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            RayClient(settings, Path(folder) / "ray.txt").close()
        except SchedulerError as error:
            error.where = f"the address of the Ray cluster ({settings.address})"  # not a temporary log
            raise


def end_tasks(tasks: Sequence[tuple[Submission, int]]) -> None:
    """Record in the submissions that those of these tasks that have not begun are over, as "cancelled".

    A task that has begun is left alone: it reads the cancel marks of its runs.
    """
    for submission, task in tasks:
        if not submission.starts(task).exists():
            submission.note_over(CANCELLED, "cancelled", task)


def open_dispatcher(setting: Setting) -> RayDispatcher:
    """Open Ray; raise SpecError for a wrong setting. Ray is asked when the first run is missing."""
    return RayDispatcher(setting, read_settings(setting.cluster))


SPEC = DispatcherSpec(
    open_dispatcher,
    check_settings=check_settings,
    check_reachable=check_reachable,
    end_tasks=end_tasks,
    task_states=task_states,
    on_this_machine=False,
)
