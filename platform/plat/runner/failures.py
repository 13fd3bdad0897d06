"""Classes of failure: which one an exception is, and what is tried again.

    oom        MemoryError, torch's out-of-memory errors; a SIGKILL only when the kernel counted an OOM kill meanwhile
    nan        RunError("nan") of the trainer, FloatingPointError
    disk       no space, quota, file too large, read-only file system
    node       killed without such evidence, or an attempt that never said how it ended (power cut, reboot)
    stalled    no event for too long (the dispatcher kills it)
    error      anything else: the user's or the trainer's mistake

A dispatcher tries again by itself what is in RETRIES, and a run that ran out of memory as long as it can be made
smaller (`plat.runner.memory`). A later `plat sweep` tries again everything except FINAL.
"""

from __future__ import annotations

import errno

from plat.errors import PlatError, PluginError, RunError
from plat.user_code import in_words, place_of

RETRIES = {"preempted": 1000, "node": 2, "timeout": 2, "stalled": 1}  # by the dispatcher, within one sweep
FINAL = ("failed:nan", "failed:error")  # would fail again: only `plat retry` tries
FIX = "; fix: "  # in a reason: what follows says how to mend it
LONGEST = 500  # characters of a reason
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def classify(error: BaseException) -> tuple[str, str]:
    """("failed:<class>", reason in one line) of an exception, its causes included."""
    reason = _reason(error)
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        seen.append(cause)
        if isinstance(cause, RunError) and cause.failure_class != "error":
            return f"failed:{cause.failure_class}", reason
        if isinstance(cause, MemoryError) or any(base.__name__ == "OutOfMemoryError" for base in type(cause).__mro__):
            return "failed:oom", reason
        if isinstance(cause, RuntimeError) and ("out of memory" in str(cause) or "can't allocate memory" in str(cause)):
            return "failed:oom", reason
        if isinstance(cause, OSError) and cause.errno in _DISK:
            return "failed:disk", reason
        if isinstance(cause, FloatingPointError):
            return "failed:nan", reason
        cause = cause.__cause__ or cause.__context__
    return "failed:error", reason


def _reason(error: BaseException) -> str:
    """What happened, in one line, with the file and line of the trainer's code where that can be told, and behind FIX
    how to mend it where the error says so."""
    mend = ""
    if isinstance(error, PlatError):
        place = error.where if isinstance(error, RunError | PluginError) else None
        what, mend = error.what, error.mend or ""
    else:
        what, place = in_words(error), place_of(error)
    reason = " ".join(f"{what} ({place})".split() if place else what.split())
    if not mend:
        return reason[:LONGEST]
    return reason[: LONGEST // 2] + FIX + " ".join(mend.split())[: LONGEST // 2]
