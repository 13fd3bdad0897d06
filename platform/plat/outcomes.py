"""The words for how a run ends, and what each of them means. Ask these functions instead of comparing texts.

    finished                    every iteration was done
    stopped:<reason>            an early stop of the method under study ended it
    failed:<class>              it could not go on; the class is one of `plat.errors.FAILURE_CLASSES`
    stopped:pruned              a search gave the run up (`plat tune`), which says nothing about the method
    interrupted, cancelled      somebody ended it; an interrupted run goes on, a cancelled one does not

A finished or stopped run has a result. It is never done again, and tables count it. A pruned run has none, because
what another search or a sweep wants of it is the whole run: whoever asks for it next goes on from its checkpoint.
"""

from __future__ import annotations

FINISHED = "finished"
INTERRUPTED = "interrupted"
CANCELLED = "cancelled"
PRUNED = "stopped:pruned"
ENDED_ON_REQUEST = (CANCELLED, PRUNED)  # not by themselves, and not to go on until somebody asks again
_STOPPED = "stopped:"
_FAILED = "failed:"


def is_result(outcome: str | None) -> bool:
    """Whether a run with this outcome has a result: it finished, or an early stop ended it."""
    return outcome == FINISHED or is_stopped(outcome)


def is_stopped(outcome: str | None) -> bool:
    """Whether an early stop of the method ended the run."""
    return outcome is not None and outcome.startswith(_STOPPED) and outcome != PRUNED


def is_failure(outcome: str | None) -> bool:
    """Whether the run could not go on."""
    return outcome is not None and outcome.startswith(_FAILED)


def failure_class(outcome: str | None) -> str | None:
    """The class of a failure: "oom" of "failed:oom". None of every other outcome."""
    return outcome.removeprefix(_FAILED) if outcome is not None and is_failure(outcome) else None
