"""Execute jobs on this machine: slots, one forked process per job, retries, stalls (a Dispatcher).

At most `slots` processes run at once. A GPU belongs to one job, or to several that ask for a share of it. A job that
dies, for any reason, ends or is retried without effect on others. A process is started only when something must run.
Everything happens in the caller's thread, inside `poll`. `plat.dispatch.local.local_decisions` decides the next state
of a job.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plat.dispatch.decisions import Changes, Decision
from plat.dispatch.dispatcher import ENDED, QUEUED, RUNNING, WAITING, Change, Dispatcher, Handle
from plat.dispatch.local import local_decisions
from plat.dispatch.local.devices import Devices
from plat.dispatch.local.job_processes import Processes, ProcessesLost
from plat.dispatch.local.local_settings import read_gpus
from plat.dispatch.local.schedule import (
    LocalJob,
    Schedule,
    expected_seconds,
    make_jobs,
    start_request,
    thread_environment,
    trainers_that_train,
)
from plat.dispatch.setting import Setting, cannot_detach
from plat.planning.cost import cached_keys
from plat.processes.own_process import usable_cores
from plat.trainer.finding import find_trainer
from plat.words.outcomes import CANCELLED, FINISHED, INTERRUPTED

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run

CHECK_EVERY = 0.5  # seconds between two checks of waiting jobs and of growing spools


class LocalDispatcher(Dispatcher):
    """Dispatcher for this machine; `setting.create` makes a run's directory, just before the run starts.

    `setting.jobs` defaults to usable cores // most threads of a job; then no job is started beside a running one while
    other sweeps use the cores. `setting.stall_after` defaults to the trainer's value, as do the GPUs of each
    job without `cluster.gpus`. With `heeds_marks`, a run with a file `cancel` does not start.
    """

    farewell = "stopping: runs are saving their state (again to kill them); the same command resumes from there"
    jobs: dict[str, LocalJob]

    def __init__(self, setting: Setting, *, heeds_marks: bool = False) -> None:
        """Raise SpecError for a wrong setting."""
        super().__init__(setting)
        self._create = setting.create
        self._steal = setting.steal
        self._heeds_marks = heeds_marks
        self._stall_after = setting.stall_after
        self._gpus = read_gpus(setting.cluster)
        self._schedule = Schedule()
        self._devices = Devices()
        self._yields = setting.jobs is None  # an explicit number of jobs is used as given
        self._changes = Changes()
        self._processes = Processes(self.home.logs / "worker-server.txt", self._server_needs)
        self._checked = time.monotonic()

    @classmethod
    def check_settings(cls, cluster: Sequence[str], detach: bool) -> None:
        """Raise SpecError for a wrong setting, and for `detach`: the runs need this process."""
        read_gpus(cluster)
        if detach:
            raise cannot_detach()

    def submit(self, runs: Sequence[Run]) -> list[Handle]:
        """Queue runs and their preparations; SpecError if a run requests more GPUs or machines than there are."""
        made = make_jobs(list(runs), cached_keys(self.home.cache), self._gpus)
        jobs = [job for job in made if self._is_new(job)]
        self._devices.check(jobs)
        if self.slots is None:
            threads = max((job.threads for job in jobs), default=1)
            self.slots = max(1, usable_cores() // max(1, threads))
        for job in jobs:
            if job.needs is not None:
                job.needs = self.jobs.get(job.needs.id, job.needs)
                if job.needs.state == ENDED:
                    job.needs = None
            self.jobs[job.id] = job
        self._schedule.add(jobs, expected_seconds(self.home, jobs))
        if jobs:
            self._processes.load()
        return [Handle(run.id, run.id) for run in runs]

    def _is_new(self, job: LocalJob) -> bool:
        """Return True for an unknown job, or an ended run that is requested again (a search gave it up earlier)."""
        known = self.jobs.get(job.id)
        return known is None or (known.kind == "run" and known.state == ENDED)

    def poll(self, timeout: float = 0.0) -> list[Change]:
        """Start ready jobs, collect ended ones, check for stalls every CHECK_EVERY seconds, and return the changes.

        Raises ServerGone if the worker server cannot be replaced.
        """
        self._start_ready()
        self._read_ends(0.0 if self._changes else timeout)
        gap = time.monotonic() - self._checked
        if gap >= CHECK_EVERY:
            self._checked += gap
            self._check_waiting()
            self._check_for_stalls(gap)
        self._start_ready()
        return self._changes.take()

    def cancel(self, handles: Sequence[Handle]) -> None:
        """Cancel these runs: end queued and waiting ones now, and ask running ones to stop.

        Queued preparations that no queued run needs are ended, too; running preparations continue.
        """
        for handle in handles:
            job = self.jobs[handle.job]
            job.cancelled = True
            if job.state in (QUEUED, WAITING):
                self._apply(job, Decision(ENDED, CANCELLED, "cancelled"))
            elif job.state == RUNNING:
                self.home.run(job.run.id).cancel.touch()
                self._signal(job, signal.SIGTERM)
        wanted = {id(job.needs) for job in self.jobs.values() if job.state == QUEUED}
        for job in self.jobs.values():
            if job.kind == "prepare" and job.state == QUEUED and id(job) not in wanted:
                self._apply(job, Decision(ENDED, CANCELLED, "no run needs it any more"))

    def close(self) -> None:
        """Ask running workers to stop, and wait a few seconds; they end after they have saved, maybe later."""
        self._processes.close()

    def active(self) -> bool:
        """Return True if a job may still change; once stopping, if a job runs."""
        alive = (RUNNING,) if self.stopping else (QUEUED, RUNNING, WAITING)
        return any(job.state in alive for job in self.jobs.values())

    def stop(self) -> None:
        """Start nothing more; ask running jobs to save and stop."""
        self.stopping = True
        self._read_ends(0.0)
        if self._processes.loading:
            self.close()
            for job in self._running():
                self._devices.give_back(job)
                self._apply(job, Decision(ENDED, INTERRUPTED, "asked to stop before it began"))
        for job in self._running():
            self._signal(job, signal.SIGTERM)

    def kill(self) -> None:
        """End running jobs at once; the next sweep resumes from the newest checkpoints."""
        self.stopping = True
        for job in self._running():
            job.ending = (INTERRUPTED, "killed by a second interrupt")
            self._signal(job, signal.SIGKILL)

    def _running(self) -> list[LocalJob]:
        return [job for job in self.jobs.values() if job.state == RUNNING]

    def _start_ready(self) -> None:
        slots = self.slots or 1
        while not self.stopping:
            running = self._running()
            if len(running) >= slots:
                return
            if self._yields and running and not self._devices.cores.has_room(self.notices):
                return  # one job always runs, so that no sweep waits forever
            preparing = sum(1 for job in running if job.kind == "prepare")
            job = self._schedule.next(slots, preparing, self._devices.fits)
            if job is None:
                return
            self._start(job)

    def _start(self, job: LocalJob) -> None:
        """Start a job unless it is done, held, or prepared elsewhere."""
        decision = local_decisions.before_start(job, self.home, self._create, self._steal, self._heeds_marks)
        if decision is not None:
            self._apply(job, decision)
            return
        environment = {**thread_environment(job.threads), **self._devices.take(job)}
        job.oom_kills = local_decisions.oom_kills()
        job.started = job.grown = time.monotonic()
        job.sign_of_life, job.kill_at, job.ending = (-1, -1), None, None
        try:
            self._processes.start(start_request(job, self.home, self._steal, environment))
        except ProcessesLost as lost:
            self._give_up_processes(lost)
            self._devices.give_back(job)
            self._apply(job, Decision(QUEUED))
            return
        self._changes.move(job, RUNNING)

    def _server_needs(self) -> tuple[list[str], dict[str, str]]:
        """Return the trainers whose modules the worker server loads, and its environment."""
        threads = {job.threads for job in self.jobs.values()}
        environment = thread_environment(threads.pop() if len(threads) == 1 else 1)
        return trainers_that_train(job.run for job in self.jobs.values()), environment

    def _read_ends(self, timeout: float) -> None:
        """Note which processes have ended, waiting at most `timeout` seconds for the first."""
        try:
            for message in self._processes.ended(min(timeout, CHECK_EVERY)):
                self._note_end(self.jobs[message["job"]], message["status"], message["result"])
        except ProcessesLost as lost:
            self._give_up_processes(lost)

    def _note_end(self, job: LocalJob, status: int, result: dict[str, Any] | None) -> None:
        job.seconds = time.monotonic() - job.started
        self._devices.give_back(job)
        self._apply(job, local_decisions.after_end(job, self.home, status, result, self.stopping))
        if job.kind == "prepare":
            self._settle_dependents(job)

    def _settle_dependents(self, preparation: LocalJob) -> None:
        """Make the runs that need an ended preparation ready, or fail them with it. Do nothing once stopping."""
        if preparation.state != ENDED or self.stopping:
            return
        if preparation.outcome == FINISHED:
            self._schedule.unblock(preparation)
        else:
            for job in self._schedule.drop_blocked(preparation):
                self._apply(job, local_decisions.without_preparation(job, self.home, self._create))

    def _apply(self, job: LocalJob, decision: Decision) -> None:
        if decision.state == QUEUED:
            self._schedule.put_back(job)
        self._changes.apply(job, decision)

    def _signal(self, job: LocalJob, number: int) -> None:
        try:
            self._processes.signal(job.id, number)
        except ProcessesLost as lost:
            self._give_up_processes(lost)

    def _give_up_processes(self, lost: ProcessesLost) -> None:
        """Wait for runs, which may still be saving, to take them over later. Start preparations again."""
        for job in self._running():
            self._devices.give_back(job)
            self._apply(job, Decision(WAITING) if job.kind == "run" else Decision(QUEUED, None, str(lost)))

    def _check_waiting(self) -> None:
        for job in [job for job in self.jobs.values() if job.state == WAITING]:
            decision = local_decisions.while_waiting(job, self.home, self._steal, self.stopping)
            if decision is not None:
                self._apply(job, decision)

    def _check_for_stalls(self, gap: float) -> None:
        for job in self._running():
            if gap > local_decisions.ABSENCE:  # no check for so long (Ctrl-Z): the run may have been suspended too
                job.grown = time.monotonic()
            limit = find_trainer(job.run.trainer).stall_after if self._stall_after is None else self._stall_after
            number = local_decisions.stall_signal(job, self.home, limit)
            if number is not None:
                self._signal(job, number)
