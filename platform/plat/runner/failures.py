"""Classes of failures: classify an exception, and state which failures are retried.

    oom        MemoryError, torch's out-of-memory errors; a SIGKILL only when the kernel counted an OOM kill meanwhile
    nan        RunError("nan") of the trainer, FloatingPointError
    disk       no space, quota, file too large, read-only file system
    node       killed without such evidence, or an attempt without an outcome (power cut, reboot)
    stalled    no event for too long (the dispatcher kills it)
    error      anything else: a mistake of the user or the trainer

A dispatcher retries the classes in RETRIES, and a run that ran out of memory for as long as it can be made smaller
(`plat.runner.memory`). A later `plat sweep` retries everything except FINAL.
"""

from __future__ import annotations

import errno

from plat.errors import PlatError, PluginError, RunError
from plat.user_code import in_words, place_of
from plat.words.outcomes import failed

RETRIES = {"preempted": 1000, "node": 2, "timeout": 2, "stalled": 1}  # by the dispatcher, within one sweep
FINAL = (failed("nan"), failed("error"))  # would fail again: only `plat retry` retries them
FIX = "; fix: "  # in a reason: precedes the advice on how to fix it
LONGEST = 500  # characters of a reason
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def classify(error: BaseException) -> tuple[str, str]:
    """Return ("failed:<class>", one-line reason) of an exception. Its causes are examined as well."""
    reason = _reason(error)
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        seen.append(cause)
        if isinstance(cause, RunError) and cause.failure_class != "error":
            return failed(cause.failure_class), reason
        if isinstance(cause, MemoryError) or any(base.__name__ == "OutOfMemoryError" for base in type(cause).__mro__):
            return failed("oom"), reason
        if isinstance(cause, RuntimeError) and ("out of memory" in str(cause) or "can't allocate memory" in str(cause)):
            return failed("oom"), reason
        if isinstance(cause, OSError) and cause.errno in _DISK:
            return failed("disk"), reason
        if isinstance(cause, FloatingPointError):
            return failed("nan"), reason
        cause = cause.__cause__ or cause.__context__
    return failed("error"), reason


def _reason(error: BaseException) -> str:
    """Return what happened in one line, with the place in the trainer's code and, after FIX, the advice, if known."""
    fix = ""
    if isinstance(error, PlatError):
        place = error.where if isinstance(error, RunError | PluginError) else None
        what, fix = error.what, error.fix or ""
    else:
        what, place = in_words(error), place_of(error)
    reason = " ".join(f"{what} ({place})".split() if place else what.split())
    if not fix:
        return reason[:LONGEST]
    return reason[: LONGEST // 2] + FIX + " ".join(fix.split())[: LONGEST // 2]
