"""Hands runs to a scheduler, so that whoever is killed at whatever point, each run is submitted exactly once.

The order is what makes it safe (see also `plat.store.submissions`):

    1  a folder with a new name, locked by us; a command of the scheduler that we start inherits the lock
    2  the next record of each run, created exclusively: the runs whose record we did not get belong to others
    3  submission.json; then everything so far is flushed to the disk, once
    4  the scheduler is called
    5  job.json
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plat.dispatch.api import SchedulerError
from plat.store import process
from plat.store.durable import NO_LOCKS, create, read_json, to_checked_json, to_json
from plat.store.home import Home
from plat.store.submissions import Record, Submission, claim, new_submission, submitter

if TYPE_CHECKING:
    from plat.spec.runs import Run

OTHER_MACHINE = 600.0  # seconds after which a submitter elsewhere that has not called its scheduler counts as gone


def hand_over(
    home: Home,
    place: Mapping[str, Any],
    tasks: Sequence[Sequence[Run]],
    describe: Callable[[Submission, list[list[str]], str], Mapping[str, Any]],
    call: Callable[[Submission, list[list[str]], int], str],
) -> dict[str, Record]:
    """Submit the runs of these tasks that nobody else has. Their new records by run id; none when others have them all.

    place     what the runs' records say of the scheduler: `scheduler`, `cluster`, ...
    describe  (submission, ids of the runs by task, comment) -> further entries of submission.json; it may write files
    call      (submission, ids of the runs by task, descriptor of the lock) -> the scheduler's number for them

    SchedulerError when the call fails. When it is `certain`, the submission is over and its runs are free again;
    otherwise they stay in its hands until a refresh knows whether the scheduler has them.
    """
    by = submitter()
    submission = new_submission(home)
    with _locked(submission, to_json(by)) as lock:
        facts = {**place, "job_name": submission.name, "by": by}
        ids: list[list[str]] = []
        records: dict[str, Record] = {}
        for runs in tasks:
            claimed = {run.id: claim(home.run(run.id), submission, len(ids), facts) for run in runs}
            ours = {run_id: record for run_id, record in claimed.items() if record is not None}
            if ours:
                ids.append(list(ours))
                records |= ours
        if not ids:
            submission.note_over(None, "other submissions have all of its runs")
            return {}
        comment = f"plat {submission.name} by {by['user']}@{by['host']}"
        manifest = {**facts, "name": submission.name, "comment": comment, "tasks": ids, "time": time.time()}
        manifest |= describe(submission, ids, comment)
        create(submission.manifest, to_checked_json(manifest), sync=False)
        _flush(home)
        if submission.is_over():  # somebody took us for dead
            return {}
        try:
            job_id = call(submission, ids, lock)
        except SchedulerError as error:
            if error.certain:
                submission.note_over(None, f"not accepted: {error.what}")
            raise
        submission.note_job(job_id, "the answer")
    return records


def give_up(submission: Submission, scheduler: str, accept_within: float) -> None:
    """Note that a submission that its scheduler does not list is over, if that is certain.

    The scheduler has `accept_within` seconds, from when somebody first missed it, to list what it was asked for.
    """
    if submitter_may_live(submission):
        return
    if not submission.manifest.exists():
        submission.note_over(None, "its submitter ended before it called the scheduler")
        return
    doubt = submission.root / "missed.json"
    create(doubt, b"{}\n", sync=False)
    if age(doubt.stat().st_mtime, submission) >= accept_within:
        submission.note_over(None, f"{scheduler} never accepted it")


def age(then: float, submission: Submission) -> float:
    """Seconds since a file of a submission was changed, on the clock of the file system that both lie on."""
    probe = submission.root / f".tmp-{os.getpid()}-now"
    try:
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink(missing_ok=True)
    except OSError:  # nothing can be written there
        now = time.time()
    return max(0.0, now - then)


def submitter_may_live(submission: Submission) -> bool:
    """Whether the submitter, or the command of the scheduler that it has called, may still be at work.

    One that has not yet locked the file, or written its name into it, counts as gone: before it calls the scheduler it
    looks whether it was given up, and so does every task before it does a run. Where nothing can be proved, a
    submitter on another machine counts as gone OTHER_MACHINE seconds after it began.
    """
    by = read_json(submission.lock)
    try:
        handle = os.open(submission.lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        locks = True
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        locks = False
    finally:
        os.close(handle)
    if by is None:
        return False
    if process.is_of_this_boot(by):
        return not locks and process.runs(by)
    return process.may_run(by) and age(submission.lock.stat().st_mtime, submission) < OTHER_MACHINE


@contextlib.contextmanager
def _locked(submission: Submission, content: bytes) -> Iterator[int]:
    """Hold the lock of a submission; who holds it is written in the file. Yields the file descriptor."""
    handle = os.open(submission.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        os.write(handle, content)
        yield handle
    finally:
        os.close(handle)


def _flush(home: Home) -> None:
    """Everything written so far reaches the disk, with one call instead of two for each record."""
    if sys.platform != "linux":
        os.sync()
        return
    handle = os.open(home.submissions, os.O_RDONLY)
    try:
        ctypes.CDLL(None).syncfs(handle)
    finally:
        os.close(handle)
