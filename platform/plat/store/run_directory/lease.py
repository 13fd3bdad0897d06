"""The lease of a run: `lease.json` names the process that works on the run, a lock on `lease.lock` proves it.

Promised: of any number of processes that call `take` on one run, at most one holds it at a time, and what it holds ends
with the process, however that ends.

How. The holder keeps an flock on `lease.lock` for its whole life; the kernel lets go of it when the process is gone,
and two processes cannot both get it. So a process that gets the lock *and* finds a `lease.json` that was written under
the same boot of the same machine knows that its writer is gone: an orphan, which it replaces while still holding the
lock, out of reach of any rival. The same holds for a lease of an earlier boot of this machine, because no process
outlives its boot. Which machine wrote a lease is certain only on a local disk, where no other machine can have written:
host names and machine ids are copied with disk images. `lease.lock` is never deleted (a lock on a deleted file would
exclude nobody). Where locks do not reach, on another machine, `lease.json` itself is created exclusively (a link) and
is respected: nothing can be proved about a process elsewhere, so the answer is "unknown" and only `steal=True` takes
it. The same files serve on a file system that refuses locks: then the process table says whether a holder on this
machine lives.

A scheduler proves more. A lease names the task of the submission (`plat.store.submissions`) that took it. When that
task is over, or when it was started anew (a requeue, on whatever machine) and it is the new start that asks, the
process that wrote the lease is gone: an orphan.

    free      no lease.json, or only the lock file
    live      its process runs (here), so hands off; even steal does not take it
    orphan    its process is gone: of this boot, of an earlier boot of this machine and on a local disk, or of a
              scheduler's task that is over or was started anew
    unknown   written elsewhere, or unreadable; --steal takes it
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import Any

from plat.errors import HomeError, PlatError
from plat.store import process, submissions
from plat.store.durable import create, read_json, scratch_name, to_json
from plat.store.file_system import is_local
from plat.store.run_directory import run_lock
from plat.store.run_directory.paths import RunPaths

JOB_VARIABLES = ("SLURM_CLUSTER_NAME", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_ID", "RAY_JOB_ID")


class LeaseHeld(PlatError):
    """The run belongs to somebody else: `state` is "live" or "unknown"."""

    def __init__(self, what: str, state: str, **place_and_mend: Any) -> None:
        super().__init__(what, **place_and_mend)
        self.state = state


@dataclass
class Lease:
    """A run that this process may work on. `attempt` is the number of the attempt it may write."""

    paths: RunPaths
    attempt: int
    _handle: int | None

    def release(self) -> None:
        """Give the run back. Harmless when called twice, or when the folder has been removed meanwhile."""
        if self._handle is not None:
            if (read_json(self.paths.lease) or {}).get("attempt") == self.attempt:  # else somebody has stolen the run
                self.paths.lease.unlink(missing_ok=True)
            run_lock.let_go(self._handle)
            self._handle = None


def take(paths: RunPaths, *, steal: bool = False) -> Lease | None:
    """The lease of a run, or None when its lease is live or unknown (`state` says which).

    HomeError when lease.lock cannot be opened or locked for another reason than that the file system has no locks.
    """
    try:
        handle = run_lock.open_lock(paths.lock)
    except FileNotFoundError:
        return None  # the run's directory was removed
    except OSError as error:
        raise _cannot_lock(paths, error) from error
    try:
        has_lock = run_lock.try_lock(handle)
    except OSError as error:
        os.close(handle)
        raise _cannot_lock(paths, error) from error
    if has_lock is False:
        os.close(handle)
        return None
    try:
        if paths.lease.exists():
            facts = read_json(paths.lease)
            if not _may_replace(facts, paths, has_lock is True, steal) or not _take_away(paths, facts):
                os.close(handle)
                return None
        number = max((attempt.number for attempt in paths.attempts()), default=0) + 1
        if not create(paths.lease, to_json(_describe(number)), sync=False):
            os.close(handle)  # somebody whom our lock does not reach was faster
            return None
    except BaseException:
        os.close(handle)
        raise
    run_lock.keep(handle)
    return Lease(paths, number, handle)


def _cannot_lock(paths: RunPaths, error: OSError) -> HomeError:
    return HomeError(
        f"cannot lock the run: {error.strerror or error}",
        where=str(paths.lock),
        mend="make it a writable file, or choose another home (--home DIR)",
    )


def state(paths: RunPaths) -> str:
    """ "free", "live", "orphan" or "unknown". It may change at any moment: only `take` decides."""
    if not paths.lease.exists():
        return "free"
    facts = read_json(paths.lease)
    if run_lock.is_locked(paths.lock) or (process.is_of_this_boot(facts) and process.runs(facts)):
        return "live"
    if not paths.lease.exists():
        return "free"
    return "orphan" if _is_over(facts, paths) else "unknown"


def refusal(paths: RunPaths) -> LeaseHeld:
    """Why `take` gave None, as an error to raise or to show."""
    facts = read_json(paths.lease) or {}
    who = f"process {facts.get('pid', '?')} on {facts.get('host', 'an unknown machine')}"
    current = state(paths)
    if current == "unknown":
        return LeaseHeld(
            f"whether somebody still works on the run cannot be told from here ({who})",
            "unknown",
            where=str(paths.lease),
            mend="if that process is gone, take the run over with --steal",
        )
    return LeaseHeld(f"the run is being worked on by {who}", "live", where=str(paths.lease), mend="wait for it to end")


def task_of(paths: RunPaths) -> str | None:
    """The place of the scheduler's task that has the run, when that task is not over; None otherwise."""
    task = (read_json(paths.lease) or {}).get("task")
    record = submissions.newest_record(paths)
    if not isinstance(task, dict) or record is None or not record.is_open:
        return None
    same = (task.get("submission"), task.get("task")) == (record.submission.name, record.task)
    return record.place if same else None


def holder(paths: RunPaths) -> int | None:
    """The process id of a live holder on this machine and boot, or None."""
    facts = read_json(paths.lease)
    return int(facts["pid"]) if facts and process.is_of_this_boot(facts) and process.runs(facts) else None


# --- proofs ---------------------------------------------------------------------------------------------------------


def _may_replace(facts: dict[str, Any] | None, paths: RunPaths, has_lock: bool, steal: bool) -> bool:
    """Whether a lease that is there may be replaced; without locks, the process table says whether its writer lives."""
    if not has_lock and process.is_of_this_boot(facts) and process.runs(facts):
        return False
    return steal or _is_over(facts, paths)


def _is_over(facts: dict[str, Any] | None, paths: RunPaths) -> bool:
    """Whether the writer of a lease is certainly gone; nobody holds its lock, or there are no locks and no process."""
    if process.is_of_this_boot(facts):
        return True  # it would still hold the lock if it lived
    if process.is_of_this_machine(facts) and is_local(paths.root):
        return True  # no process outlives its boot
    return _is_task_over(facts, paths)


def _is_task_over(facts: dict[str, Any] | None, paths: RunPaths) -> bool:
    """Whether a lease was written by a scheduler's task that is over, or by an earlier start of the task that asks."""
    task = (facts or {}).get("task")
    if not isinstance(task, dict) or not isinstance(task.get("submission"), str):
        return False
    own = submissions.this_task()
    if own is not None and (own["submission"], own["task"]) == (task["submission"], task.get("task")):
        restart = task.get("restart", 0)
        return isinstance(restart, int) and bool(own["restart"] > restart)
    return submissions.find_submission(paths, task["submission"]).is_over(task.get("task"))


def _take_away(paths: RunPaths, facts: dict[str, Any] | None) -> bool:
    """Remove the lease that was judged; False when another one has taken its place meanwhile, which is left there.

    Only needed where our lock does not reach a rival: of two that rename the file only one succeeds.
    """
    aside = scratch_name(paths.lease)
    try:
        os.rename(paths.lease, aside)
    except FileNotFoundError:
        return True
    same = read_json(aside) == facts
    with contextlib.suppress(FileExistsError):
        if not same:
            os.link(aside, paths.lease)
    aside.unlink(missing_ok=True)
    return same


def _describe(attempt: int) -> dict[str, Any]:
    return {
        **process.this_process(),
        "job": {name: os.environ[name] for name in JOB_VARIABLES if name in os.environ},
        "task": submissions.this_task(),
        "attempt": attempt,
        "time": time.time(),
    }
