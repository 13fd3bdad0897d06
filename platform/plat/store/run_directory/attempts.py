"""Attempts of a run: how an attempt begins, and how it is ended when its process died before recording its outcome.

Promised: an attempt's outcome is written once, by its own process if that lives long enough, else by whoever holds the
run's lease next. Functions that end somebody else's attempt take the lease first, so they never touch a live one.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import sys
import time
from typing import Any

from plat.errors import RunError
from plat.outcomes import CANCELLED, PRUNED
from plat.plain_files import read_text
from plat.store import process
from plat.store.durable import create, read_json, to_checked_json, write
from plat.store.run_directory import lease
from plat.store.run_directory.files import headline_of, load_meta, read_outcome
from plat.store.run_directory.numerics import numerics
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.state import last_progress


def new_attempt(paths: RunPaths, number: int, threads: int = 0) -> AttemptPaths:
    """Make an attempt's folder; RunError when it exists (then somebody else believes to hold the lease)."""
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
    facts = {"run": paths.id, "attempt": number, "restored_step": None, **where_it_runs(threads), "time": time.time()}
    write(attempt.meta, to_checked_json(facts), sync=False)
    return attempt


def settle(paths: RunPaths, outcome: str, reason: str) -> str | None:
    """Record how a dead process's attempt ended and give its lease back, for the parent of that process.

    Returns the outcome on record (one that the process wrote itself stays), or None when the run is not ours any more.
    """
    dead = read_json(paths.lease) or {}
    held = lease.take(paths)
    if held is None:
        return None
    try:
        attempts = paths.attempts()
        if not attempts or attempts[-1].number != dead.get("attempt"):
            return outcome  # it died before its attempt began
        end_attempt(paths, attempts[-1], outcome, reason)
        return str((read_outcome(attempts[-1]) or {}).get("outcome", outcome))
    finally:
        held.release()


def record_failure(paths: RunPaths, outcome: str, reason: str, error: str | None = None) -> None:
    """Record an attempt that failed before it could start, e.g. because its base model could not be built."""
    held = lease.take(paths)
    if held is None:
        return
    try:
        end_attempt(paths, new_attempt(paths, held.attempt), outcome, reason, error)
    finally:
        held.release()


def request_cancel(paths: RunPaths) -> None:
    """Ask a run to stop for good, wherever it runs: its trainer sees it at the next `should_stop()`."""
    paths.cancel.touch()
    _hurry(paths)


def request_prune(paths: RunPaths, reason: str) -> None:
    """Ask a run to save a checkpoint and stop, because a search gives it up; `reason` is one line."""
    write(paths.cancel, f"{PRUNED}\n{reason}\n".encode(), sync=False)
    _hurry(paths)


def requested_end(paths: RunPaths) -> tuple[str, str]:
    """(outcome, reason) of a run that stopped because somebody asked for it: cancelled, or pruned."""
    try:
        outcome, _, reason = read_text(paths.cancel).strip().partition("\n")
    except (OSError, ValueError):
        outcome, reason = "", ""
    return (PRUNED, reason) if outcome == PRUNED else (CANCELLED, "cancelled")


def _hurry(paths: RunPaths) -> None:
    """Signal a run of this machine, so that it looks at its `cancel` file even while it waits."""
    pid = lease.holder(paths)
    if pid is not None and pid != os.getpid():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)


def close_abandoned(paths: RunPaths) -> None:
    """Record that attempts without an outcome vanished. Hold the lease: then none of them still runs."""
    for attempt in paths.attempts():
        if not attempt.outcome.exists():
            end_attempt(paths, attempt, "failed:node", "the process vanished (killed, or the machine went down)")


def end_attempt(paths: RunPaths, attempt: AttemptPaths, outcome: str, reason: str, error: str | None = None) -> None:
    step, success, _ = last_progress(attempt.events, headline_of(load_meta(paths)))
    record = {"outcome": outcome, "reason": reason, "step": step, "success": success, "wall": None, "error": error}
    whose = {"run": paths.id, "attempt": attempt.number}
    with contextlib.suppress(OSError):
        create(attempt.outcome, to_checked_json({**whose, **record, "summary": {}, "time": time.time()}))


# --- where and with what it ran -------------------------------------------------------------------------------------


def where_it_runs(threads: int) -> dict[str, Any]:
    """The machine, the process, the hardware and the numerics of an attempt, as attempt.json records them."""
    computed = numerics()
    return {
        "host": platform.node(),
        "boot_id": process.boot_id(),
        "pid": os.getpid(),
        "threads": threads,
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "hardware": computed["cpu"],
        "numerics": computed,
    }


def hardware_used() -> dict[str, Any]:
    """Peak memory of this process in MiB, and the GPU if one was used."""
    import resource

    scale = 1 if sys.platform == "darwin" else 1024
    facts: dict[str, Any] = {"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale // 2**20}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        facts["gpu"] = torch.cuda.get_device_name()
    return facts
