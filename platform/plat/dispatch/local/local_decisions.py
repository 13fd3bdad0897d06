"""Decide the next state of a job on this machine, with the rules of every dispatcher (`plat.dispatch.decisions`).

A run is judged by its directory, a preparation by the end of its process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.dispatch import decisions
from plat.dispatch.decisions import Decision
from plat.dispatch.dispatcher import ENDED, QUEUED, WAITING
from plat.dispatch.local.schedule import LocalJob
from plat.errors import PlatError
from plat.processes.process_tree import signal_name
from plat.runner.failures import RETRIES
from plat.store.coordination.preparations import is_being_prepared
from plat.store.home import Home
from plat.store.run_directory.attempts import record_failure, requested_end, settle
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.state import run_state
from plat.words.outcomes import INTERRUPTED, NOT_KNOWN, failed, failure_class
from plat.words.states import LeaseState

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run

Create = Callable[["Run"], RunPaths]
ABSENCE = 30.0  # seconds without a check for stalls after which the clock is reset
LAST_WORDS = 5.0  # seconds that a stalled run has to print its tracebacks
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS, signal.SIGTRAP)


def before_start(job: LocalJob, home: Home, create: Create, steal: bool, heeds_marks: bool) -> Decision | None:
    """Return None if the job can start now (a run's directory then exists), else the decision.

    heeds_marks  a run that was asked to end (by its file `cancel`) does not start
    """
    if job.kind == "prepare":
        return Decision(WAITING) if is_being_prepared(home, job.id) else None
    try:
        paths = create(job.run)
    except PlatError as error:
        return decisions.without_directory(error)
    if heeds_marks and paths.cancel.exists():
        return Decision(ENDED, *requested_end(paths))
    return decisions.before_start(paths, steal)


def after_end(job: LocalJob, home: Home, status: int, result: dict[str, Any] | None, stopping: bool) -> Decision:
    """Return the decision after a job's process ended; `status` is its wait status, `result` that of `worker.work`."""
    if result is not None and "held" in result:
        return Decision(WAITING) if result["held"] == LeaseState.LIVE else Decision(ENDED, NOT_KNOWN, result["reason"])
    outcome, reason = read_end(status, result, job, oom_kills())
    if job.kind == "prepare":
        return decisions.retry_or_end(job, outcome, reason, stopping)
    paths = home.run(job.run.id)
    if result is None:
        outcome = settle(paths, outcome, reason) or outcome
    if outcome == INTERRUPTED and not stopping and not paths.cancel.exists():
        at = f"interrupted at step {run_state(paths).step}"
        job.tries[at] += 1
        if job.tries[at] > RETRIES["node"]:
            reason = f"each of {job.tries[at]} attempts was told to stop (SIGTERM) before it got further"
            record_failure(paths, failed("node"), reason)
            return Decision(ENDED, failed("node"), reason)
    return decisions.after_attempt(job, paths, outcome, reason, stopping)


def while_waiting(job: LocalJob, home: Home, steal: bool, stopping: bool) -> Decision | None:
    """Return the decision for a job that another process executes; None to keep waiting.

    `steal`: queue a run whose state is unknown instead of ending it. `stopping`: retry nothing. A preparation that is
    no longer being made is queued.
    """
    if job.kind == "run":
        return decisions.while_waiting(job, home.run(job.run.id), steal, stopping)
    # A preparation that has ended elsewhere is started here: if it was finished, it ends at once.
    return None if is_being_prepared(home, job.id) else Decision(QUEUED)


def without_preparation(job: LocalJob, home: Home, create: Create) -> Decision:
    """Return the decision that ends a run with the outcome of its preparation; record a failure, no interruption."""
    assert job.needs is not None
    outcome, reason = job.needs.outcome or failed("error"), f"{job.needs.title} failed: {job.needs.reason}"
    if failure_class(outcome) is not None:
        try:
            record_failure(create(job.run), outcome, reason, f"see {home.job_log(job.needs.id)}")
        except (PlatError, OSError) as error:
            reason += f" (and it could not be recorded: {error})"
    return Decision(ENDED, outcome, reason)


def read_end(status: int, result: dict[str, Any] | None, job: LocalJob, oom_kills: int | None) -> tuple[str, str]:
    """Return (outcome, reason) of an ended process from `job.ending`, its result, or its wait status.

    SIGKILL counts as out of memory only if the kernel's counter of OOM kills grew since the job started.
    """
    if job.ending is not None:
        return job.ending
    if result is not None and "outcome" in result:
        return result["outcome"], result.get("reason", "")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            if oom_kills is not None and job.oom_kills is not None and oom_kills > job.oom_kills:
                return failed("oom"), "killed by the kernel: out of memory"
            return failed("node"), "killed (SIGKILL) from outside"
        if number == signal.SIGTERM:
            return INTERRUPTED, "ended by SIGTERM before it could save its state"
        if number == signal.SIGXCPU:
            return failed("timeout"), "used up its CPU time limit"
        if number in CRASHES:
            return failed("error"), f"crashed with {signal_name(number)}; its log has the traceback"
        return failed("node"), f"ended by {signal_name(number)}"
    return failed("error"), f"the process ended with exit code {os.WEXITSTATUS(status)} and recorded no outcome"


def stall_signal(job: LocalJob, home: Home, limit: float) -> int | None:
    """Return the number of the signal that the caller should send to a running job now, or None.

    A run is stalled after `limit` seconds without an event or a beat (`plat.trainer.heartbeat`). It first gets SIGABRT,
    which prints the tracebacks of all threads into the log, and this call sets `job.ending` (outcome and reason) and
    `job.kill_at`. LAST_WORDS seconds later it gets SIGKILL.
    Time is measured on the monotonic clock of this process, so clocks that jump or disagree do no harm.
    Preparations have no spool and never count as stalled.
    """
    now = time.monotonic()
    if job.kind != "run":
        return None
    if job.kill_at is not None:
        return signal.SIGKILL if now >= job.kill_at else None
    sign = _sign_of_life(job, home)
    if sign != job.sign_of_life:
        job.sign_of_life, job.grown = sign, now
    elif now - job.grown > limit:
        job.ending = (failed("stalled"), f"no event for {now - job.grown:.0f} s")
        job.kill_at = now + LAST_WORDS
        return signal.SIGABRT
    return None


def _sign_of_life(job: LocalJob, home: Home) -> tuple[int, int]:
    """Return (bytes in the newest attempt's spool, time of its last beat in ns); -1 for a missing one."""
    attempts = home.run(job.run.id).attempts()
    if not attempts:
        return (-1, -1)
    spool, beats = _stat(attempts[-1].events), _stat(attempts[-1].alive)
    return (-1 if spool is None else spool.st_size, -1 if beats is None else beats.st_mtime_ns)


def _stat(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except OSError:
        return None


def oom_kills() -> int | None:
    """Return the number of OOM kills in our control group, else on the machine; None if unknown."""
    for path in _oom_counters():
        with contextlib.suppress(OSError, ValueError):
            for line in path.read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return None


def _oom_counters() -> list[Path]:
    counters = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, controllers, place = line.split(":", 2)
            if number == "0":
                counters.append(Path(f"/sys/fs/cgroup{place}") / "memory.events")
            elif "memory" in controllers.split(","):
                counters.append(Path(f"/sys/fs/cgroup/memory{place}") / "memory.oom_control")
    return [*counters, Path("/proc/vmstat")]
