"""Begin attempts of a run, and end attempts whose process died before it recorded an outcome.

An attempt's outcome is written once: by its own process, or, if that died, by the next holder of the run's lease.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import time

from plat.errors import RunError
from plat.plain_files import read_text
from plat.processes import identification
from plat.store.disk.durable import create, read_json, to_checked_json, write
from plat.store.run_directory import lease
from plat.store.run_directory.numerics import numerics
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.run_files import headline_of, load_meta, read_outcome
from plat.store.run_directory.state import last_progress
from plat.words.outcomes import CANCELLED, PRUNED, failed


def new_attempt(paths: RunPaths, number: int, threads: int = 0) -> AttemptPaths:
    """Create the folder of attempt `number` with its attempt.json, in which `threads` is only recorded.

    Raises RunError if the folder exists: another process works on the run.
    """
    attempt = paths.attempt(number)
    attempt.root.parent.mkdir(exist_ok=True)
    try:
        attempt.root.mkdir()
    except FileExistsError as error:
        raise RunError(
            f"attempt {number} exists already: two processes work on this run",
            failure_class="node",
            where=str(paths.root),
        ) from error
    computed = numerics()
    facts = {
        "run": paths.id,
        "attempt": number,
        "restored_step": None,
        "host": platform.node(),
        "boot_id": identification.boot_id(),
        "pid": os.getpid(),
        "threads": threads,
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "hardware": computed["cpu"],
        "numerics": computed,
        "time": time.time(),
    }
    write(attempt.meta, to_checked_json(facts), sync=False)
    return attempt


def settle(paths: RunPaths, outcome: str, reason: str) -> str | None:
    """Take the lease of a dead process, record the outcome of its attempt, release the lease, and return the outcome.

    An outcome that the process wrote itself is kept and returned. If its attempt never began, or lease.json is absent,
    nothing is recorded and `outcome` is returned. Returns None, and records nothing, if the lease cannot be taken.
    """
    dead = read_json(paths.lease) or {}
    held = lease.take(paths)
    if held is None:
        return None
    try:
        attempts = paths.attempts()
        if not attempts or attempts[-1].number != dead.get("attempt"):
            return outcome  # the process died before its attempt began
        end_attempt(paths, attempts[-1], outcome, reason)
        return str((read_outcome(attempts[-1]) or {}).get("outcome", outcome))
    finally:
        held.release()


def record_failure(paths: RunPaths, outcome: str, reason: str, error: str | None = None) -> None:
    """Create the run's next attempt, which failed before its start. Does nothing if the lease cannot be taken."""
    held = lease.take(paths)
    if held is None:
        return
    try:
        end_attempt(paths, new_attempt(paths, held.attempt), outcome, reason, error)
    finally:
        held.release()


def request_cancel(paths: RunPaths) -> None:
    """Ask a run on any machine to stop: its trainer sees the request at the next `should_stop()`.

    The run's process also gets SIGTERM if it is on this machine and is not the calling process.
    """
    paths.cancel.touch()
    _hurry(paths)


def request_prune(paths: RunPaths, reason: str) -> None:
    """Ask a run that its search pruned to stop, as `request_cancel` does; `reason` is one line."""
    write(paths.cancel, f"{PRUNED}\n{reason}\n".encode(), sync=False)
    _hurry(paths)


def requested_end(paths: RunPaths) -> tuple[str, str]:
    """Return (outcome, reason) of a run that stopped on request, from its file `cancel`.

    They are PRUNED and the reason in the file after `request_prune`, else CANCELLED and "cancelled".
    """
    try:
        outcome, _, reason = read_text(paths.cancel).strip().partition("\n")
    except (OSError, ValueError):
        outcome, reason = "", ""
    return (PRUNED, reason) if outcome == PRUNED else (CANCELLED, "cancelled")


def _hurry(paths: RunPaths) -> None:
    """Send SIGTERM to a run on this machine, so that it reads its `cancel` file even while it waits."""
    pid = lease.holder(paths)
    if pid is not None and pid != os.getpid():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)


def close_abandoned(paths: RunPaths) -> None:
    """Record `failed:node` for attempts without an outcome. The caller holds the lease, so none of them still runs."""
    for attempt in paths.attempts():
        if not attempt.outcome.exists():
            end_attempt(paths, attempt, failed("node"), "the process vanished (killed, or the machine went down)")


def end_attempt(paths: RunPaths, attempt: AttemptPaths, outcome: str, reason: str, error: str | None = None) -> None:
    """Write outcome.json with the newest progress in the events, unless the file exists or cannot be written."""
    step, success, _ = last_progress(attempt.events, headline_of(load_meta(paths)))
    record = {"outcome": outcome, "reason": reason, "step": step, "success": success, "wall": None, "error": error}
    whose = {"run": paths.id, "attempt": attempt.number}
    with contextlib.suppress(OSError):
        create(attempt.outcome, to_checked_json({**whose, **record, "summary": {}, "time": time.time()}))
