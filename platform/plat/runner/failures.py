"""Classes of failures: classify an exception, and state which failures are retried.

    oom        MemoryError, torch's out-of-memory errors; a SIGKILL only when the kernel counted an OOM kill meanwhile
    nan        RunError("nan") of the trainer, FloatingPointError
    disk       no space, quota, file too large, read-only file system
    node       killed without such evidence, or an attempt without an outcome (power cut, reboot)
    stalled    no event for too long (the dispatcher kills it)
    error      anything else: a mistake of the user or the trainer

A dispatcher retries the classes in RETRIES, and a run that ran out of memory for as long as it can be made smaller
(`plat.runner.failures`). A later `plat sweep` retries everything except FINAL.
"""

from __future__ import annotations

import dataclasses
import errno
from typing import Any

from plat.errors import PlatError, PluginError, RunError
from plat.spec.composition.schema import leaves
from plat.spec.composition.trainer_calls import checked_call
from plat.spec.identity.run_identity import is_operational
from plat.store.disk.durable import to_checked_json, write
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.run_files import read_attempt_meta, read_outcome
from plat.trainer.api import Trainer
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


# Make a run smaller after it ran out of memory: each such attempt makes the next one smaller by one step.
#
# `Trainer.less_memory` makes a step, for example half as many examples in a micro-batch. Only operational keys
# may change, so results may differ in their last bits only. The change is recorded as AFTER_OOM in the attempt's
# meta.json and in the summary of result.json.

OOM = failed("oom")
AFTER_OOM = "after_oom"


def fitted(spec: Trainer, config: Any, paths: RunPaths) -> tuple[Any, dict[str, Any]]:
    """Return the config of the next attempt, and the keys that were made smaller -> value ({} if memory was enough).

    config  the run's config, as its trainer's `config_type`

    Raises RunError if the trainer changed a key that results depend on, PluginError if its `less_memory` fails.
    """
    fitting = config
    for _ in range(_out_of_memory(paths)):
        fitting = checked_call(spec, "less_memory")(fitting) or fitting
    before, after = (leaves(dataclasses.asdict(each)) for each in (config, fitting))
    # spelled, because NaN differs from itself
    changed = {key: value for key, value in after.items() if repr(value) != repr(before.get(key))}
    for key in changed:
        if not is_operational(key, spec.operational_keys):
            raise RunError(
                f"the trainer {spec.name!r} changed {key} to need less memory, and results depend on it",
                where=spec.name,
                fix="change only keys that Trainer.operational_keys names",
            )
    return fitting, changed


def can_be_smaller(spec: Trainer, config: Any, paths: RunPaths) -> bool:
    """Return True if `less_memory` of the trainer, applied to `config` n times, gives a smaller config each time.

    n is the number of the run's attempts that ran out of memory. To be asked when the newest attempt did.
    Raises PluginError if the trainer's `less_memory` fails.
    """
    fitting = config
    for _ in range(_out_of_memory(paths)):
        fitting = checked_call(spec, "less_memory")(fitting)
        if fitting is None:
            return False
    return True


def note(attempt: AttemptPaths, changed: dict[str, Any]) -> None:
    """Record in an attempt's meta.json what was made smaller."""
    write(attempt.meta, to_checked_json({**read_attempt_meta(attempt), AFTER_OOM: changed}))


def _out_of_memory(paths: RunPaths) -> int:
    """Return how many attempts of a run ran out of memory."""
    return sum((read_outcome(attempt) or {}).get("outcome") == OOM for attempt in paths.attempts())
