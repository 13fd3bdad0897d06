"""What becomes of a run: judged from its directory, never from what a process or a scheduler says of itself.

Every dispatcher asks here before it starts a run, when an attempt has ended, and while somebody else has the run, so
that the rules of retries and leases are the same wherever runs are executed.
"""

from __future__ import annotations

from dataclasses import dataclass

from plat.dispatch.api import ENDED, QUEUED, WAITING, Job
from plat.errors import HomeError, PlatError
from plat.outcomes import CANCELLED, ENDED_ON_REQUEST, INTERRUPTED, failure_class
from plat.runner import memory
from plat.runner.failures import FINAL, RETRIES
from plat.runner.training import typed_config
from plat.store.run_directory import lease
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.state import run_state
from plat.trainer.api import find_trainer


@dataclass(frozen=True)
class Decision:
    """The state that a job goes to: ENDED, WAITING (somebody else has the run) or QUEUED (it is to be started)."""

    state: str
    outcome: str | None = None
    reason: str = ""


def before_start(paths: RunPaths, steal: bool) -> Decision | None:
    """None when the run is to be started now; otherwise it is done (by another sweep), or somebody has it."""
    now = run_state(paths)
    if now.state == "done":
        return Decision(ENDED, now.outcome, now.reason)
    held = lease.state(paths)
    if held == "live":
        return Decision(WAITING)
    if held == "unknown" and not steal:
        if now.state == "running":
            return Decision(WAITING)  # a scheduler has it
        return Decision(ENDED, "unknown", lease.refusal(paths).what)
    return None


def without_directory(error: PlatError) -> Decision:
    """What follows for a run whose directory could not be made."""
    return Decision(ENDED, "failed:disk" if isinstance(error, HomeError) else "failed:error", error.what)


def after_attempt(job: Job, paths: RunPaths, outcome: str, reason: str, stopping: bool) -> Decision:
    """What follows an attempt of ours that ended with `outcome`: result.json alone makes the run done."""
    now = run_state(paths)
    if now.state == "done":
        return Decision(ENDED, now.outcome, now.reason)
    if now.state == "running":
        return Decision(WAITING)  # another sweep was quick to take it over
    if failure_class(outcome) is None and outcome not in (INTERRUPTED, *ENDED_ON_REQUEST):
        return retry_or_end(job, "failed:node", f"it {outcome} but left no result.json", stopping, paths)
    recorded = now.reason if now.outcome == outcome else ""
    return retry_or_end(job, outcome, recorded or reason, stopping, paths)


def while_waiting(job: Job, paths: RunPaths, steal: bool, stopping: bool) -> Decision | None:
    """What follows for a run that somebody else has; None while there is nothing to do but wait."""
    now = run_state(paths)
    if now.state == "running":
        return None
    if now.state == "done":
        return Decision(ENDED, now.outcome, now.reason)
    if now.state == "unknown" and not steal:
        return Decision(ENDED, "unknown", lease.refusal(paths).what)
    if now.state == "failed" and now.outcome in FINAL:
        return Decision(ENDED, now.outcome, now.reason)
    if now.state == "failed":
        return retry_or_end(job, now.outcome or "failed:node", now.reason, stopping, paths)
    return Decision(QUEUED)


def retry_or_end(job: Job, outcome: str, reason: str, stopping: bool, paths: RunPaths | None = None) -> Decision:
    """Whether a job that did not end well is tried again, by the class of its failure. Counts the retry on the job.

    paths  of a run, None for a preparation
    """
    failure = "preempted" if outcome == INTERRUPTED else failure_class(outcome) or ""
    if stopping or job.cancelled or not _may_retry(job, failure, paths):
        return Decision(ENDED, CANCELLED if job.cancelled and outcome == INTERRUPTED else outcome, reason)
    job.tries[failure] += 1
    return Decision(QUEUED, outcome, reason)


def _may_retry(job: Job, failure: str, paths: RunPaths | None) -> bool:
    if failure != "oom" or paths is None:
        return job.tries[failure] < RETRIES.get(failure, 0)
    spec = find_trainer(job.run.trainer)
    try:
        return memory.can_be_smaller(spec, typed_config(job.run.config, spec), paths)
    except Exception:  # a mistake in the trainer's own code, which the next attempt would meet and record
        return False
