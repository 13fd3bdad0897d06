"""How the run of a task that is over ended: its own record counts first, then the scheduler's word."""

from __future__ import annotations

from plat.outcomes import is_failure
from plat.store.run_directory.attempts import record_failure, requested_end, settle
from plat.store.run_directory.files import read_outcome
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.state import run_state
from plat.store.submissions import Record


def end_of_task(paths: RunPaths, record: Record) -> tuple[str, str]:
    """(outcome, reason) of a run whose task is over, recorded with its newest attempt where that says nothing.

    A run whose task has ended before the run began is recorded as failed, so that its log says where to look; one
    that somebody has cancelled, or that its task left for another time, is not.
    """
    end = record.submission.end(record.task)
    reason = str(end.get("reason") or "its job is over")
    log = record.submission.root / f"task-{record.task}.txt"
    attempts = paths.attempts()
    if not attempts or attempts[-1].number <= record.attempts:
        if paths.cancel.exists():
            return requested_end(paths)
        outcome = end.get("outcome") or "failed:node"
        if not record.submission.manifest.exists() or record.submission.job_id() is None:
            return "interrupted", reason  # no scheduler ever had it
        if is_failure(outcome):
            record_failure(paths, outcome, f"its job ended before it began: {reason}", f"see {log}")
        return outcome, reason
    recorded = read_outcome(attempts[-1])
    if recorded is not None:
        return str(recorded["outcome"]), str(recorded.get("reason") or "")
    outcome = end.get("outcome") or "failed:node"
    if run_state(paths).state == "done":
        return outcome, reason
    return settle(paths, outcome, f"{reason}; see {log}") or outcome, reason
