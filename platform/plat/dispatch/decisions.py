"""Decide the next state of a run from its directory, never from what a process or a scheduler reports.

Every dispatcher asks here before it starts a run, after an attempt, and while another process holds the run. The rules
for retries and leases are therefore the same wherever runs are executed.
"""

from __future__ import annotations

from dataclasses import dataclass

from plat.dispatch.dispatcher import ENDED, QUEUED, WAITING, Change, Job
from plat.errors import HomeError, PlatError
from plat.runner import failures
from plat.runner.failures import FINAL, RETRIES
from plat.runner.training import typed_config
from plat.store.run_directory import lease
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.state import run_state
from plat.trainer.finding import find_trainer
from plat.words.outcomes import CANCELLED, ENDED_ON_REQUEST, INTERRUPTED, NOT_KNOWN, failed, failure_class
from plat.words.states import JobState, LeaseState, RunStatus


@dataclass(frozen=True)
class Decision:
    """The next state of a job: ENDED, WAITING (another process has the run) or QUEUED (start it)."""

    state: JobState
    outcome: str | None = None
    reason: str = ""


class Changes:
    """Change the state of jobs, and keep each change, in order, until `take`. The object is true while it keeps any."""

    def __init__(self) -> None:
        self._changes: list[Change] = []

    def __bool__(self) -> bool:
        return bool(self._changes)

    def apply(self, job: Job, decision: Decision) -> None:
        """Apply a decision to a job. A WAITING job keeps its earlier outcome."""
        if decision.state != WAITING:
            job.outcome, job.reason = decision.outcome, decision.reason
        self.move(job, decision.state)

    def move(self, job: Job, state: JobState) -> None:
        """Set only the state of a job, and keep the change."""
        job.state = state
        self._changes.append(job.change())

    def take(self) -> list[Change]:
        """Return the changes since the last call."""
        taken, self._changes = self._changes, []
        return taken


def before_start(paths: RunPaths, steal: bool) -> Decision | None:
    """Return None if the run can start now, else a decision: ENDED if it is done, WAITING if another process holds it.

    If it cannot be checked from here whether a process holds the run: None with `steal`, else ENDED with outcome
    "unknown", or WAITING if a scheduler's task has the run.
    """
    now = run_state(paths)
    if now.state == RunStatus.DONE:
        return Decision(ENDED, now.outcome, now.reason)
    held = lease.state(paths)
    if held == LeaseState.LIVE:
        return Decision(WAITING)
    if held == LeaseState.UNKNOWN and not steal:
        if now.state == RunStatus.RUNNING:
            return Decision(WAITING)  # a scheduler has it
        return Decision(ENDED, NOT_KNOWN, lease.refusal(paths).what)
    return None


def without_directory(error: PlatError) -> Decision:
    """Return ENDED for a run whose directory could not be made: "failed:disk" for a HomeError, else "failed:error"."""
    return Decision(ENDED, failed("disk") if isinstance(error, HomeError) else failed("error"), error.what)


def after_attempt(job: Job, paths: RunPaths, outcome: str, reason: str, stopping: bool) -> Decision:
    """Return the decision after our attempt ended with `outcome`: ENDED, QUEUED to retry, or WAITING.

    WAITING: another process has the run. Only result.json makes a run done: an outcome of success without it counts as
    failed:node. `stopping`: retry nothing.
    """
    now = run_state(paths)
    if now.state == RunStatus.DONE:
        return Decision(ENDED, now.outcome, now.reason)
    if now.state == RunStatus.RUNNING:
        return Decision(WAITING)  # another sweep has already taken it over
    if failure_class(outcome) is None and outcome not in (INTERRUPTED, *ENDED_ON_REQUEST):
        return retry_or_end(job, failed("node"), f"it {outcome} but left no result.json", stopping, paths)
    recorded = now.reason if now.outcome == outcome else ""
    return retry_or_end(job, outcome, recorded or reason, stopping, paths)


def while_waiting(job: Job, paths: RunPaths, steal: bool, stopping: bool) -> Decision | None:
    """Return the decision for a run that another process has: ENDED, or QUEUED to start it here; None to keep waiting.

    `steal`: queue a run whose state is unknown instead of ending it. `stopping`: retry nothing.
    """
    now = run_state(paths)
    if now.state == RunStatus.RUNNING:
        return None
    if now.state == RunStatus.DONE:
        return Decision(ENDED, now.outcome, now.reason)
    if now.state == RunStatus.UNKNOWN and not steal:
        return Decision(ENDED, NOT_KNOWN, lease.refusal(paths).what)
    if now.state == RunStatus.FAILED and now.outcome in FINAL:
        return Decision(ENDED, now.outcome, now.reason)
    if now.state == RunStatus.FAILED:
        return retry_or_end(job, now.outcome or failed("node"), now.reason, stopping, paths)
    return Decision(QUEUED)


def retry_or_end(job: Job, outcome: str, reason: str, stopping: bool, paths: RunPaths | None = None) -> Decision:
    """Return QUEUED to retry a job that did not end well, else ENDED. `paths` is None for a preparation.

    RETRIES has the number of retries of each failure class; a run out of memory is retried while its trainer can make
    it smaller. A job that is cancelled is not retried, and none while `stopping`. A retry is counted in `job.tries`.
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
        return failures.can_be_smaller(spec, typed_config(job.run.config, spec), paths)
    except Exception:  # an error in the trainer's own code: the next attempt would record it
        return False
