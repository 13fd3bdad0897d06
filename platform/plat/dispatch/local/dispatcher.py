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

from plat.dispatch.api import ENDED, QUEUED, RUNNING, WAITING, Change, Handle
from plat.dispatch.local import machine, stalls
from plat.dispatch.local.client import ServerGone, WorkerServer
from plat.dispatch.local.jobs import LocalJob, make_jobs, read_end, trainers_that_train
from plat.errors import HomeError, PlatError, SpecError
from plat.outcomes import failure_class
from plat.runner import FINAL, RETRIES
from plat.store import lease
from plat.store.attempts import record_failure, settle
from plat.store.home import Home, RunPaths
from plat.store.run_state import run_state

if TYPE_CHECKING:
    from plat.spec.experiment import Run

STALL_AFTER = 900.0  # seconds without an event
LOOK_EVERY = 0.5  # seconds between looks at runs that are waited for, and at growing spools


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
        self._queue: list[LocalJob] = []
        self._changes: list[Change] = []
        self._server: WorkerServer | None = None
        self._deaths = 0
        self._devices: list[str] | None = None
        self._looked = time.monotonic()

    # --- the protocol ------------------------------------------------------------------------------------------------

    def submit(self, runs: Sequence[Run]) -> list[Handle]:
        """Queue runs behind the preparations they need. SpecError when one wants more GPUs than there are."""
        jobs = [job for job in make_jobs(list(runs)) if job.id not in self.jobs]
        self._find_devices(jobs)
        if self.slots is None:
            threads = max((job.threads for job in jobs), default=1)
            self.slots = max(1, machine.usable_cores() // max(1, threads))
        for job in jobs:
            if job.needs is not None:
                job.needs = self.jobs.get(job.needs.id, job.needs)
            self.jobs[job.id] = job
        self._queue += jobs
        return [Handle(run.id, run.id) for run in runs]

    def poll(self, timeout: float = 0.0) -> list[Change]:
        self._start_ready()
        self._hear(0.0 if self._changes else timeout)
        gap = time.monotonic() - self._looked
        if gap >= LOOK_EVERY:
            self._looked += gap
            self._look_at_waiting()
            self._look_for_stalls(gap)
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

    def close(self) -> None:
        """Workers that still run are asked to stop by the server, which outlives us until they have saved."""
        if self._server is not None:
            self._server.close()
            self._server = None

    # --- beyond the protocol -----------------------------------------------------------------------------------------

    def active(self) -> bool:
        """Is there anything to poll for?"""
        alive = (RUNNING,) if self.stopping else (QUEUED, RUNNING, WAITING)
        return any(job.state in alive for job in self.jobs.values())

    def stop(self) -> None:
        """Start nothing more; ask what runs to save and stop."""
        self.stopping = True
        for job in self._running():
            self._signal(job, signal.SIGTERM)

    def kill(self) -> None:
        """End what runs at once; the next sweep goes on from the newest checkpoints."""
        self.stopping = True
        for job in self._running():
            job.ending = ("interrupted", "killed by a second interrupt")
            self._signal(job, signal.SIGKILL)

    # --- starting ----------------------------------------------------------------------------------------------------

    def _running(self) -> list[LocalJob]:
        return [job for job in self.jobs.values() if job.state == RUNNING]

    def _start_ready(self) -> None:
        free = (self.slots or 1) - len(self._running())
        for job in list(self._queue) if free > 0 and not self.stopping else ():
            if free <= 0:
                return
            if job.state != QUEUED:
                self._queue.remove(job)
            elif job.needs is not None and job.needs.state != ENDED:
                continue
            elif job.needs is not None and job.needs.outcome != "finished":
                self._queue.remove(job)
                self._fail_unprepared(job)
            elif job.gpus <= len(self._devices or ()):
                self._queue.remove(job)
                free -= self._start(job)

    def _start(self, job: LocalJob) -> bool:
        """Start a job unless it is done or held elsewhere; True when it now takes a slot."""
        if job.kind == "run":
            try:
                paths = self._create(job.run)
            except PlatError as error:
                self._end(job, "failed:disk" if isinstance(error, HomeError) else "failed:error", error.what)
                return False
            if self._is_settled(job, paths):
                return False
        request = {
            "op": "start",
            "job": job.id,
            "kind": job.kind,
            "title": job.title,
            "home": str(self.home.root),
            "run_id": job.run.id,
            "steal": self._steal,
            "threads": job.threads,
            "env": {**machine.thread_environment(job.threads), **self._take_devices(job)},
        }
        if job.kind == "prepare":
            request |= {"trainer": job.run.trainer, "config": job.run.config, "log": str(self.home.job_log(job.id))}
        job.oom_kills = machine.oom_kills()
        job.started = job.grown = time.monotonic()
        job.spool_size, job.kill_at, job.ending = -1, None, None
        try:
            self._get_server().send(request)
        except ServerGone as gone:
            self._server_died(gone)
            self._requeue(job)
            return False
        self._move(job, RUNNING)
        return True

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

    def _find_devices(self, jobs: list[LocalJob]) -> None:
        wanted = max((job.gpus for job in jobs), default=0)
        if wanted and self._devices is None:
            self._devices = machine.gpus()
        count = len(self._devices or ()) + sum(len(job.devices) for job in self._running())
        if wanted > count:
            title = next(job.title for job in jobs if job.gpus > count)
            raise SpecError(
                f"{title} asks for {wanted} GPU{'s' if wanted > 1 else ''}; this machine has {count or 'none'}",
                mend="choose device=cpu or another scale=, or run it where there are GPUs",
            )

    def _take_devices(self, job: LocalJob) -> dict[str, str]:
        """A run sees the GPUs that are its own, and none when it asked for none."""
        pool = self._devices or []
        job.devices = tuple(pool[: job.gpus])
        del pool[: job.gpus]
        return {"CUDA_VISIBLE_DEVICES": ",".join(job.devices)}

    # --- ending ------------------------------------------------------------------------------------------------------

    def _hear(self, timeout: float) -> None:
        if self._server is None:
            if timeout and any(job.state == WAITING for job in self.jobs.values()):
                time.sleep(min(timeout, LOOK_EVERY))
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
        self._give_devices_back(job)
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

    def _conclude(self, job: LocalJob, paths: RunPaths, outcome: str, reason: str) -> None:
        """Completion is decided by result.json alone; the reason is the one on record."""
        found = run_state(paths)
        if found.state == "done":
            self._end(job, found.outcome, found.reason)
        elif found.state == "running":
            self._move(job, WAITING)  # another sweep was quick to take it over
        elif failure_class(outcome) is None and outcome not in ("interrupted", "cancelled"):
            self._retry_or_end(job, "failed:node", f"it {outcome} but left no result.json")
        else:
            self._retry_or_end(job, outcome, found.reason if found.outcome == outcome and found.reason else reason)

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

    def _give_devices_back(self, job: LocalJob) -> None:
        if self._devices is not None:
            self._devices += job.devices
        job.devices = ()

    def _end(self, job: LocalJob, outcome: str | None, reason: str) -> None:
        job.outcome, job.reason = outcome, reason
        self._move(job, ENDED)

    def _requeue(self, job: LocalJob, outcome: str | None = None, reason: str = "") -> None:
        self._queue.insert(0, job)
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
            self._give_devices_back(job)
            if job.kind == "run":
                self._move(job, WAITING)
            else:
                self._requeue(job, None, gone.what)
        if not was_ready or self._deaths > 3:
            raise gone

    # --- looking -----------------------------------------------------------------------------------------------------

    def _look_at_waiting(self) -> None:
        for job in [job for job in self.jobs.values() if job.state == WAITING]:
            paths = self.home.run(job.run.id)
            found = run_state(paths)
            if found.state == "done":
                self._end(job, found.outcome, found.reason)
            elif found.state == "unknown" and not self._steal:
                self._end(job, "unknown", lease.refusal(paths).what)
            elif found.state == "failed" and found.outcome in FINAL:
                self._end(job, found.outcome, found.reason)
            elif found.state == "failed":
                self._retry_or_end(job, found.outcome or "failed:node", found.reason)
            elif found.state != "running":
                self._requeue(job)

    def _look_for_stalls(self, gap: float) -> None:
        for job in self._running():
            if gap > stalls.ABSENCE:  # we were not looking (Ctrl-Z, a long import): it may have been stopped with us
                job.grown = time.monotonic()
            number = stalls.check(job, self.home, self._stall_after)
            if number is not None:
                self._signal(job, number)
