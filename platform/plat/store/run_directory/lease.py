"""Take and inspect the lease of a run: `lease.json` names the process that works on it, `lease.lock` proves it.

At most one process holds a run. The holder keeps an flock on `lease.lock`, which the kernel releases when the process
ends; the file is never deleted, because a lock on a deleted file would exclude no process. Between machines, and on
file systems without locks, the exclusive creation of `lease.json` decides.

    free      no lease.json
    live      its process runs on this machine; even --steal does not take it
    orphan    its process ended: it was of this boot, or of an earlier boot of this machine and the disk is local, or
              of a scheduler's task that is over or was requeued
    unknown   written on another machine, or unreadable; --steal takes it
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import Any

from plat.errors import HomeError, PlatError, os_errors_as
from plat.processes import identification
from plat.processes.locks import open_lock, probe_lock, take_lock
from plat.store.coordination import submissions
from plat.store.disk.durable import create, is_local, read_json, scratch_name, to_json
from plat.store.run_directory.paths import RunPaths
from plat.words.states import LeaseState

JOB_VARIABLES = ("SLURM_CLUSTER_NAME", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_ID", "RAY_JOB_ID")


# Descriptors of the locks that this process holds. A forked child inherits them, and closes its copies so that no lock
# outlives the process that took it.
_held: set[int] = set()


class LeaseHeld(PlatError):
    """Another process holds the run; `state` is "live" or "unknown"."""

    def __init__(self, what: str, state: str, **where_and_fix: Any) -> None:
        super().__init__(what, **where_and_fix)
        self.state = state


@dataclass
class Lease:
    """A run that this process may work on. `attempt` is the number of the attempt it may write."""

    paths: RunPaths
    attempt: int
    _handle: int | None

    def release(self) -> None:
        """Release the run. A second call, or a call after the folder was removed, raises nothing.

        If another process has stolen the run, lease.json stays.
        """
        if self._handle is not None:
            if (read_json(self.paths.lease) or {}).get("attempt") == self.attempt:  # else the run was stolen
                self.paths.lease.unlink(missing_ok=True)
            _held.discard(self._handle)
            os.close(self._handle)
            self._handle = None


def take(paths: RunPaths, *, steal: bool = False) -> Lease | None:
    """Take the lease of a run; return None if it is live or unknown (`steal` takes unknown), or the run was removed.

    Raises HomeError if lease.lock cannot be opened or locked, unless the file system has no locks.
    """
    fix = "make it a writable file, or choose another home (--home DIR)"
    with os_errors_as(HomeError, "cannot lock the run", paths.lock, fix):
        try:
            handle = open_lock(paths.lock)
        except FileNotFoundError:
            return None  # the run's directory was removed
        try:
            has_lock = _try_lock(handle)
        except OSError:
            os.close(handle)
            raise
    if has_lock is False:
        os.close(handle)
        return None
    try:
        if paths.lease.exists():
            facts = read_json(paths.lease)
            # without locks, the process table decides if its writer still runs
            writes = not has_lock and identification.is_of_this_boot(facts) and identification.runs(facts)
            if writes or not (steal or _is_over(facts, paths)) or not _take_away(paths, facts):
                os.close(handle)
                return None
        number = max((attempt.number for attempt in paths.attempts()), default=0) + 1
        holder = {
            **identification.this_process(),
            "job": {name: os.environ[name] for name in JOB_VARIABLES if name in os.environ},
            "task": submissions.this_task(),
            "attempt": number,
            "time": time.time(),
        }
        if not create(paths.lease, to_json(holder), sync=False):
            os.close(handle)  # a process on another machine was faster
            return None
    except BaseException:
        os.close(handle)
        raise
    _held.add(handle)
    return Lease(paths, number, handle)


def state(paths: RunPaths) -> LeaseState:
    """Return the state of the lease. It may change at any moment; only `take` decides."""
    if not paths.lease.exists():
        return LeaseState.FREE
    facts = read_json(paths.lease)
    if _is_locked(paths) or (identification.is_of_this_boot(facts) and identification.runs(facts)):
        return LeaseState.LIVE
    if not paths.lease.exists():
        return LeaseState.FREE
    return LeaseState.ORPHAN if _is_over(facts, paths) else LeaseState.UNKNOWN


def refusal(paths: RunPaths) -> LeaseHeld:
    """Return an error that explains why `take` returned None."""
    facts = read_json(paths.lease) or {}
    who = f"process {facts.get('pid', '?')} on {facts.get('host', 'an unknown machine')}"
    current = state(paths)
    if current == LeaseState.UNKNOWN:
        return LeaseHeld(
            f"cannot tell from here whether a process still works on the run ({who})",
            "unknown",
            where=str(paths.lease),
            fix="if that process is gone, take the run over with --steal",
        )
    return LeaseHeld(f"the run is being worked on by {who}", "live", where=str(paths.lease), fix="wait for it to end")


def task_of(paths: RunPaths) -> submissions.Record | None:
    """Return the record of the scheduler's task that holds the lease if the task is not over, else None."""
    task = (read_json(paths.lease) or {}).get("task")
    record = submissions.newest_record(paths)
    if not isinstance(task, dict) or record is None or not record.is_open:
        return None
    same = (task.get("submission"), task.get("task")) == (record.submission.name, record.task)
    return record if same else None


def holder(paths: RunPaths) -> int | None:
    """Return the process id of a live holder on this machine and boot, or None."""
    facts = read_json(paths.lease)
    return int(facts["pid"]) if facts and identification.is_of_this_boot(facts) and identification.runs(facts) else None


# --- proofs ---------------------------------------------------------------------------------------------------------


def _is_over(facts: dict[str, Any] | None, paths: RunPaths) -> bool:
    """Return True if the writer of a lease has certainly ended. The caller has ruled out a lock and a local process."""
    if identification.is_of_this_boot(facts):
        return True  # a live writer would still hold the lock
    # Host names and machine ids are copied with disk images; only a local disk proves which machine wrote the lease.
    if identification.is_of_this_machine(facts) and is_local(paths.root):
        return True  # no process outlives its boot
    return submissions.is_task_of_run_over(paths, (facts or {}).get("task"))


def _try_lock(handle: int) -> bool | None:
    """Take the lock; return True if this process got it, False if not, None if the file system has no locks."""
    for wait in (0.002, 0.01):  # three tries: `_is_locked` of another process may hold the lock for an instant
        is_ours = take_lock(handle)
        if is_ours is not False:
            return is_ours
        time.sleep(wait)
    return take_lock(handle)


def _is_locked(paths: RunPaths) -> bool:
    """Return True if a process, this one included, holds the lock now; False where the file system has no locks."""
    try:
        return probe_lock(paths.lock) is False
    except OSError:
        return False


def _take_away(paths: RunPaths, facts: dict[str, Any] | None) -> bool:
    """Remove the lease with these facts; return False, and keep the new lease, if it was replaced meanwhile."""
    aside = scratch_name(paths.lease)
    try:
        os.rename(paths.lease, aside)  # only one process succeeds, even where the lock does not exclude the other
    except FileNotFoundError:
        return True
    same = read_json(aside) == facts
    with contextlib.suppress(FileExistsError):
        if not same:
            os.link(aside, paths.lease)
    aside.unlink(missing_ok=True)
    return same


def _drop_in_child() -> None:
    for handle in _held:
        with contextlib.suppress(OSError):
            os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_drop_in_child)
