"""Runs jobs on this machine: slots, one forked process per job, retries, stalls (a Dispatcher).

Promised: at most `slots` processes at once; GPUs are handed out one owner at a time; a job that dies, whatever way,
ends or is tried again alone; the server is started only when something must run, and again when it dies. Everything
happens in the caller's thread, inside `poll`. The state of a run is read from its directory.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from plat.cores import usable_cores
from plat.dispatch.api import ENDED, QUEUED, RUNNING, WAITING, Change, Handle
from plat.dispatch.local import machine, stalls
from plat.dispatch.local.client import ServerGone, WorkerServer
from plat.dispatch.local.devices import Devices
from plat.dispatch.local.jobs import LocalJob, make_jobs, read_end, start_request, trainers_that_train
from plat.dispatch.local.schedule import Schedule, expected_seconds
from plat.errors import HomeError, PlatError
from plat.outcomes import failure_class
from plat.plan.cost import cached_keys
from plat.runner import FINAL, RETRIES
from plat.store.home import Home, RunPaths
from plat.store.preparations import is_being_prepared
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import record_failure, settle
from plat.store.run_directory.state import run_state

if TYPE_CHECKING:
    from plat.spec.runs import Run

STALL_AFTER = 900.0  # seconds without an event
CHECK_EVERY = 0.5  # seconds between two checks of what is waited for, and of growing spools


class LocalDispatcher:
    """`create(run)` makes a run's directory, just before it starts. `slots` defaults to cores // threads per run."""

    def __init__(
        self,
        home: Home,
        create: Callable[[Run], RunPaths],
        *,
        slots: int | None = None,
        steal: bool = False,
        stall_after: float = STALL_AFTER,
    ) -> None:
        self.home = home
        self.jobs: dict[str, LocalJob] = {}
        self.slots = slots
        self.stopping = False
        self._create = create
        self._steal = steal
        self._stall_after = stall_after
        self._schedule = Schedule()
        self._devices = Devices()
        self._changes: list[Change] = []
        self._server: WorkerServer | None = None
        self._deaths = 0
        self._checked = time.monotonic()

    def submit(self, runs: Sequence[Run]) -> list[Handle]:
        """Queue runs and the preparations they need, and let the server load what workers will need.

        SpecError when one wants more GPUs than there are.
        """
        jobs = [job for job in make_jobs(list(runs), cached_keys(self.home.cache)) if job.id not in self.jobs]
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
            self._get_server()
        return [Handle(run.id, run.id) for run in runs]

    def poll(self, timeout: float = 0.0) -> list[Change]:
        self._start_ready()
        self._hear(0.0 if self._changes else timeout)
        gap = time.monotonic() - self._checked
        if gap >= CHECK_EVERY:
            self._checked += gap
            self._check_waiting()
            self._check_for_stalls(gap)
        self._start_ready()
        changes, self._changes = self._changes, []
        return changes

    def cancel(self, handles: Sequence[Handle]) -> None:
        for handle in handles:
            job = self.jobs[handle.job]
            job.cancelled = True
            if job.state in (QUEUED, WAITING):
                self._end(job, "cancelled", "cancelled")
            elif job.state == RUNNING:
                self.home.run(job.run.id).cancel.touch()
                self._signal(job, signal.SIGTERM)
        wanted = {id(job.needs) for job in self.jobs.values() if job.state == QUEUED}
        for job in self.jobs.values():
            if job.kind == "prepare" and job.state == QUEUED and id(job) not in wanted:
                self._end(job, "cancelled", "no run needs it any more")

    def close(self) -> None:
        """Workers that still run are asked to stop by the server, which goes on until they have saved."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def active(self) -> bool:
        """Is there anything to poll for?"""
        alive = (RUNNING,) if self.stopping else (QUEUED, RUNNING, WAITING)
        return any(job.state in alive for job in self.jobs.values())

    def stop(self) -> None:
        """Start nothing more; ask what runs to save and stop."""
        self.stopping = True
        self._hear(0.0)
        if self._server is not None and not self._server.ready:  # it has started nothing yet
            self.close()
            for job in self._running():
                self._devices.give_back(job)
                self._end(job, "interrupted", "asked to stop before it began")
        for job in self._running():
            self._signal(job, signal.SIGTERM)

    def kill(self) -> None:
        """End what runs at once; the next sweep goes on from the newest checkpoints."""
        self.stopping = True
        for job in self._running():
            job.ending = ("interrupted", "killed by a second interrupt")
            self._signal(job, signal.SIGKILL)

    def _running(self) -> list[LocalJob]:
        return [job for job in self.jobs.values() if job.state == RUNNING]

    def _start_ready(self) -> None:
        slots = self.slots or 1
        while not self.stopping:
            running = self._running()
            if len(running) >= slots:
                return
            preparing = sum(1 for job in running if job.kind == "prepare")
            job = self._schedule.next(slots, preparing, self._devices.free)
            if job is None:
                return
            self._start(job)

    def _start(self, job: LocalJob) -> None:
        """Start a job unless it is done, held or prepared elsewhere."""
        if job.kind == "run":
            try:
                paths = self._create(job.run)
            except PlatError as error:
                self._end(job, "failed:disk" if isinstance(error, HomeError) else "failed:error", error.what)
                return
            if self._is_settled(job, paths):
                return
        elif is_being_prepared(self.home, job.id):
            self._move(job, WAITING)
            return
        environment = {**machine.thread_environment(job.threads), **self._devices.take(job)}
        job.oom_kills = machine.oom_kills()
        job.started = job.grown = time.monotonic()
        job.spool_size, job.kill_at, job.ending = -1, None, None
        try:
            self._get_server().send(start_request(job, self.home, self._steal, environment))
        except ServerGone as gone:
            self._server_died(gone)
            self._devices.give_back(job)
            self._requeue(job)
            return
        self._move(job, RUNNING)

    def _is_settled(self, job: LocalJob, paths: RunPaths) -> bool:
        """True when there is nothing to start: the run is done (by another sweep), or somebody has it."""
        now = run_state(paths)
        if now.state == "done":
            self._end(job, now.outcome, now.reason)
            return True
        held = lease.state(paths)
        if held == "live":
            self._move(job, WAITING)
        elif held == "unknown" and not self._steal:
            self._end(job, "unknown", lease.refusal(paths).what)
        return job.state != QUEUED

    def _get_server(self) -> WorkerServer:
        if self._server is None:
            trainers = trainers_that_train(job.run for job in self.jobs.values())
            threads = {job.threads for job in self.jobs.values()}
            environment = machine.thread_environment(threads.pop() if len(threads) == 1 else 1)
            self._server = WorkerServer(self.home.logs / "worker-server.txt", trainers, environment)
        return self._server

    def _hear(self, timeout: float) -> None:
        if self._server is None:
            if timeout and any(job.state == WAITING for job in self.jobs.values()):
                time.sleep(min(timeout, CHECK_EVERY))
            return
        try:
            messages = self._server.receive(timeout)
        except ServerGone as gone:
            self._server_died(gone)
            return
        for message in messages:
            if message["event"] == "exit":
                self._ended(self.jobs[message["job"]], message["status"], message["result"])

    def _ended(self, job: LocalJob, status: int, result: dict[str, Any] | None) -> None:
        job.seconds = time.monotonic() - job.started
        self._devices.give_back(job)
        if result is not None and "held" in result:
            if result["held"] == "live":
                self._move(job, WAITING)
            else:
                self._end(job, "unknown", result["reason"])
            return
        outcome, reason = read_end(status, result, job, machine.oom_kills())
        if job.kind == "run":
            paths = self.home.run(job.run.id)
            if result is None:
                outcome = settle(paths, outcome, reason) or outcome
            self._conclude(job, paths, outcome, reason)
        else:
            self._retry_or_end(job, outcome, reason)
            self._settle_dependents(job)

    def _settle_dependents(self, preparation: LocalJob) -> None:
        """The runs that need an ended preparation are ready, or fail with it. Once we stop, they stay as they are."""
        if preparation.state != ENDED or self.stopping:
            return
        if preparation.outcome == "finished":
            self._schedule.unblock(preparation)
        else:
            for job in self._schedule.drop_blocked(preparation):
                self._fail_unprepared(job)

    def _conclude(self, job: LocalJob, paths: RunPaths, outcome: str, reason: str) -> None:
        """Completion is decided by result.json alone; the reason is the one on record."""
        now = run_state(paths)
        if now.state == "done":
            self._end(job, now.outcome, now.reason)
        elif now.state == "running":
            self._move(job, WAITING)  # another sweep was quick to take it over
        elif failure_class(outcome) is None and outcome not in ("interrupted", "cancelled"):
            self._retry_or_end(job, "failed:node", f"it {outcome} but left no result.json")
        else:
            self._retry_or_end(job, outcome, now.reason if now.outcome == outcome and now.reason else reason)

    def _retry_or_end(self, job: LocalJob, outcome: str, reason: str) -> None:
        kind = "preempted" if outcome == "interrupted" else failure_class(outcome) or ""
        if self.stopping or job.cancelled or job.tries[kind] >= RETRIES.get(kind, 0):
            self._end(job, "cancelled" if job.cancelled and outcome == "interrupted" else outcome, reason)
            return
        job.tries[kind] += 1
        self._requeue(job, outcome, reason)

    def _fail_unprepared(self, job: LocalJob) -> None:
        """Its preparation did not finish: the run fails for the same cause, on record, unless we were just stopped."""
        assert job.needs is not None
        outcome, reason = job.needs.outcome or "failed:error", f"{job.needs.title} failed: {job.needs.reason}"
        if failure_class(outcome) is not None:
            try:
                record_failure(self._create(job.run), outcome, reason, f"see {self.home.job_log(job.needs.id)}")
            except (PlatError, OSError) as error:
                reason += f" (and it could not be recorded: {error})"
        self._end(job, outcome, reason)

    def _end(self, job: LocalJob, outcome: str | None, reason: str) -> None:
        job.outcome, job.reason = outcome, reason
        self._move(job, ENDED)

    def _requeue(self, job: LocalJob, outcome: str | None = None, reason: str = "") -> None:
        self._schedule.put_back(job)
        job.outcome, job.reason = outcome, reason
        self._move(job, QUEUED)

    def _move(self, job: LocalJob, state: str) -> None:
        job.state = state
        self._changes.append(job.change())

    def _signal(self, job: LocalJob, number: int) -> None:
        if self._server is not None:
            try:
                self._server.send({"op": "signal", "job": job.id, "number": int(number)})
            except ServerGone as gone:
                self._server_died(gone)

    def _server_died(self, gone: ServerGone) -> None:
        """Its workers have been asked to stop by the kernel; they are waited for, and then taken over. Three times."""
        server, self._server = self._server, None
        was_ready = server is not None and server.ready
        if server is not None:
            server.close(0.0)
        self._deaths += 1
        for job in self._running():
            self._devices.give_back(job)
            if job.kind == "run":
                self._move(job, WAITING)
            else:
                self._requeue(job, None, gone.what)
        if not was_ready or self._deaths > 3:
            raise gone

    def _check_waiting(self) -> None:
        for job in [job for job in self.jobs.values() if job.state == WAITING]:
            if job.kind == "run":
                self._check_run(job)
            elif not is_being_prepared(self.home, job.id):
                self._requeue(job)  # to be done here if it failed there, else to find that it is done

    def _check_run(self, job: LocalJob) -> None:
        """A run that somebody else does: whether it has ended, or is ours to do."""
        paths = self.home.run(job.run.id)
        now = run_state(paths)
        if now.state == "done":
            self._end(job, now.outcome, now.reason)
        elif now.state == "unknown" and not self._steal:
            self._end(job, "unknown", lease.refusal(paths).what)
        elif now.state == "failed" and now.outcome in FINAL:
            self._end(job, now.outcome, now.reason)
        elif now.state == "failed":
            self._retry_or_end(job, now.outcome or "failed:node", now.reason)
        elif now.state != "running":
            self._requeue(job)

    def _check_for_stalls(self, gap: float) -> None:
        for job in self._running():
            if gap > stalls.ABSENCE:  # nobody checked for so long (Ctrl-Z): the run may have stopped, too
                job.grown = time.monotonic()
            number = stalls.check(job, self.home, self._stall_after)
            if number is not None:
                self._signal(job, number)
