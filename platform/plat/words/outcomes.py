"""The outcomes of runs. Use the functions below instead of comparing texts.

    finished                every iteration was done
    stopped:<reason>        an early stop of the method under study ended it
    failed:<class>          it failed; the class is one of `plat.errors.FAILURE_CLASSES`
    stopped:pruned          a search pruned it (`plat tune`), which says nothing about the method
    interrupted             it was stopped or killed; a sweep resumes it
    cancelled               a user stopped it; only a sweep that starts later resumes it

A finished or stopped run has a result: it is never run again, and tables count it. A pruned run has none; it resumes
from its checkpoint when another search or a sweep asks for it.
"""

from __future__ import annotations

from plat.errors import FAILURE_CLASSES

FINISHED = "finished"
INTERRUPTED = "interrupted"
CANCELLED = "cancelled"
PRUNED = "stopped:pruned"
NO_METRIC = "the script ended well and logged no metric"  # how the reason of such a failure begins
NOT_KNOWN = "unknown"  # of a job whose process is gone; never written into a run
ENDED_ON_REQUEST = (CANCELLED, PRUNED)  # by a request; resumed only on request
_STOPPED = "stopped:"
_FAILED = "failed:"


def failed(failure_class: str) -> str:
    """Return the outcome of a failure, e.g. "failed:oom". Raises ValueError for a class not in FAILURE_CLASSES."""
    if failure_class not in FAILURE_CLASSES:
        raise ValueError(f"unknown failure class {failure_class!r}")
    return _FAILED + failure_class


def stopped(reason: str) -> str:
    """Return the outcome of an early stop of the method, e.g. "stopped:low_success"."""
    return _STOPPED + reason


def is_result(outcome: str | None) -> bool:
    """Return True if a run with this outcome has a result: it finished, or an early stop ended it."""
    return outcome == FINISHED or is_stopped(outcome)


def is_stopped(outcome: str | None) -> bool:
    """Return True if an early stop of the method ended the run."""
    return outcome is not None and outcome.startswith(_STOPPED) and outcome != PRUNED


def is_failure(outcome: str | None) -> bool:
    """Return True if the run failed."""
    return outcome is not None and outcome.startswith(_FAILED)


def failure_class(outcome: str | None) -> str | None:
    """Return the class of a failure, e.g. "oom" for "failed:oom"; None for every other outcome."""
    return outcome.removeprefix(_FAILED) if outcome is not None and is_failure(outcome) else None
