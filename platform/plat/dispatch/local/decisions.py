"""What becomes of a job on this machine: a run is judged from its directory, a preparation from how its process ended.

The rules for runs are those of every dispatcher (`plat.dispatch.decisions`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from plat.dispatch import decisions
from plat.dispatch.api import ENDED, QUEUED, WAITING
from plat.dispatch.decisions import Decision
from plat.dispatch.local import machine
from plat.dispatch.local.jobs import LocalJob, signal_name
from plat.errors import PlatError
from plat.outcomes import INTERRUPTED, failure_class
from plat.store.home import Home
from plat.store.preparations import is_being_prepared
from plat.store.run_directory.attempts import record_failure, settle
from plat.store.run_directory.paths import RunPaths

if TYPE_CHECKING:
    from plat.spec.runs import Run

Create = Callable[["Run"], RunPaths]
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS, signal.SIGTRAP)


def before_start(job: LocalJob, home: Home, create: Create, steal: bool) -> Decision | None:
    """None when the job is to be started now; a run's directory is then there."""
    if job.kind == "prepare":
        return Decision(WAITING) if is_being_prepared(home, job.id) else None
    try:
        paths = create(job.run)
    except PlatError as error:
        return decisions.without_directory(error)
    return decisions.before_start(paths, steal)


def after_end(job: LocalJob, home: Home, status: int, result: dict[str, Any] | None, stopping: bool) -> Decision:
    """What follows the end of a job's process; `status` is its wait status, `result` what it managed to say."""
    if result is not None and "held" in result:
        return Decision(WAITING) if result["held"] == "live" else Decision(ENDED, "unknown", result["reason"])
    outcome, reason = read_end(status, result, job, machine.oom_kills())
    if job.kind == "prepare":
        return decisions.retry_or_end(job, outcome, reason, stopping)
    paths = home.run(job.run.id)
    if result is None:
        outcome = settle(paths, outcome, reason) or outcome
    return decisions.after_attempt(job, paths, outcome, reason, stopping)


def while_waiting(job: LocalJob, home: Home, steal: bool, stopping: bool) -> Decision | None:
    """What follows for a job that somebody else does; None while there is nothing to do but wait."""
    if job.kind == "run":
        return decisions.while_waiting(job, home.run(job.run.id), steal, stopping)
    # A preparation that is over there is tried here: it ends at once when it was finished.
    return None if is_being_prepared(home, job.id) else Decision(QUEUED)


def without_preparation(job: LocalJob, home: Home, create: Create) -> Decision:
    """A run whose preparation did not finish fails for the same cause, on record, unless we were just stopped."""
    assert job.needs is not None
    outcome, reason = job.needs.outcome or "failed:error", f"{job.needs.title} failed: {job.needs.reason}"
    if failure_class(outcome) is not None:
        try:
            record_failure(create(job.run), outcome, reason, f"see {home.job_log(job.needs.id)}")
        except (PlatError, OSError) as error:
            reason += f" (and it could not be recorded: {error})"
    return Decision(ENDED, outcome, reason)


def read_end(status: int, result: dict[str, Any] | None, job: LocalJob, oom_kills: int | None) -> tuple[str, str]:
    """(outcome, reason) of an ended process, from its wait status and what it managed to say.

    A SIGKILL is called out-of-memory only when the kernel counted an OOM kill since the job started.
    """
    if job.ending is not None:
        return job.ending
    if result is not None and "outcome" in result:
        return result["outcome"], result.get("reason", "")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            if oom_kills is not None and job.oom_kills is not None and oom_kills > job.oom_kills:
                return "failed:oom", "killed by the kernel: out of memory"
            return "failed:node", "killed (SIGKILL) from outside"
        if number == signal.SIGTERM:
            return INTERRUPTED, "asked to stop before it could save"
        if number == signal.SIGXCPU:
            return "failed:timeout", "used up its CPU time limit"
        if number in CRASHES:
            return "failed:error", f"crashed with {signal_name(number)}; its log has the traceback"
        return "failed:node", f"ended by {signal_name(number)}"
    return "failed:error", f"the process left with exit code {os.WEXITSTATUS(status)} and said nothing"
