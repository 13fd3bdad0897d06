"""Hand runs to a scheduler so that each run is submitted exactly once, even if a submitter is killed at any point.

The order of the steps makes it safe (see also `plat.store.coordination.submissions`):

1  make a folder with a new name and lock it
2  under a lock of the home, write submission.json, which names the runs that no other submission has
3  flush everything so far to the disk, once
4  call the scheduler
5  write job.json
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from plat.dispatch.dispatcher import SchedulerError
from plat.processes import identification
from plat.processes.locks import open_lock, probe_lock, take_lock
from plat.store.coordination.submissions import Record, Submission, claim, new_submission, submitter
from plat.store.disk.durable import create, read_json, to_json
from plat.store.home import Home
from plat.trainer.resources import Resources

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run

ANSWER = "the answer"  # how the submitter itself learns the number of a job
OTHER_MACHINE = 600.0  # seconds after which a submitter elsewhere that has not called its scheduler counts as gone


class Work(Protocol):
    """What is submitted under an id: a run, or a whole search. `resources`: as the trainer states them."""

    @property
    def id(self) -> str: ...

    @property
    def resources(self) -> Mapping[str, Any]: ...


def hand_over(
    home: Home,
    place: Mapping[str, Any],
    tasks: Sequence[Sequence[Work]],
    describe: Callable[[Submission, list[list[str]], str], Mapping[str, Any]],
    call: Callable[[Submission, list[list[str]], int], str],
) -> dict[str, Record]:
    """Submit the runs of these tasks that no other submission has; return their new records by run id.

    place     entries of submission.json about the scheduler: `scheduler`, `cluster`, ...
    tasks     the runs of each task
    describe  (submission, ids of the runs by task, comment) -> further entries of submission.json
    call      (submission, ids of the runs by task, descriptor of the lock) -> the scheduler's number for them

    Returns {} if other submissions have all runs, or another process gave this submission up. Raises SchedulerError if
    the call fails. If the error is `certain`, the submission is over and its runs are free again. Otherwise they stay
    with it until a refresh knows whether the scheduler has them.
    """
    by = submitter()
    submission = new_submission(home)
    with _locked(submission, to_json(by)) as lock:
        comment = f"plat {submission.name} by {by['user']}@{by['host']}"
        facts = {**place, "job_name": submission.name, "by": by, "comment": comment}
        records = claim(
            submission,
            [[run.id for run in runs] for runs in tasks],
            lambda ids: {**facts, **describe(submission, ids, comment)},
        )
        if not records:
            submission.note_over(None, "other submissions have all of its runs")
            return {}
        _flush(home)
        if submission.is_over():  # another process gave this submission up
            return {}
        try:
            job_id = call(submission, submission.tasks(), lock)
        except SchedulerError as error:
            if error.certain:
                submission.note_over(None, f"not accepted: {error.what}")
            raise
        submission.note_job(job_id, ANSWER)
    return records


def give_up(submission: Submission, scheduler: str, accept_within: float) -> None:
    """Note that a submission that its scheduler does not list is over, if that is certain by now.

    It is not certain while `submitter_may_live`. Then it is certain at once if there is no submission.json, else
    `accept_within` seconds after the first such call, so call this at every refresh.
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
    """Return the seconds since `then`, the mtime of a file of the submission, on the clock of its file system."""
    probe = submission.root / f".tmp-{os.getpid()}-now"
    try:
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink(missing_ok=True)
    except OSError:  # the folder is not writable
        now = time.time()
    return max(0.0, now - then)


def submitter_may_live(submission: Submission) -> bool:
    """Return True if the submitter, or the scheduler's command that it called, may still be running.

    A submitter that has not locked the file, or not written its name into it, counts as gone. This is safe: before the
    submitter calls the scheduler, it checks whether the submission was given up; so does every task before it executes
    a run. Without proof, a submitter on another machine counts as gone OTHER_MACHINE seconds after it began.
    """
    by = read_json(submission.lock)
    try:
        is_free = probe_lock(submission.lock)  # None: the file system has no locks
    except FileNotFoundError:
        return False
    except PermissionError:
        is_free = None  # a user outside of the group cannot ask
    if is_free is False:
        return True
    if by is None:
        return False
    if identification.is_of_this_boot(by):
        return is_free is None and identification.runs(by)
    return identification.may_run(by) and age(submission.lock.stat().st_mtime, submission) < OTHER_MACHINE


@contextlib.contextmanager
def _locked(submission: Submission, content: bytes) -> Iterator[int]:
    """Hold the lock of a submission, with `content` (the holder) in the file. Yield the file descriptor."""
    handle = open_lock(submission.lock)
    try:
        take_lock(handle, wait=True)
        os.write(handle, content)
        yield handle
    finally:
        os.close(handle)


def _flush(home: Home) -> None:
    """Flush everything written so far to the disk, with one call instead of two per record."""
    handle = os.open(home.submissions, os.O_RDONLY)
    try:
        ctypes.CDLL(None).syncfs(handle)
    finally:
        os.close(handle)


# Pack runs into the tasks of a scheduler: runs that request the same resources, several short ones in a task.
#
# A task starts Python and imports torch once for all of its runs.


@dataclass(frozen=True)
class Chunk:
    """The content of one submission: tasks with the same resources, each a list of runs."""

    needed: Resources
    tasks: list[list[Run]]


def chunks(
    runs: Sequence[Run], needed: Callable[[Run], Resources], size: Callable[[Sequence[Run]], int], most_tasks: int
) -> list[Chunk]:
    """Return all runs in chunks of at most `most_tasks` tasks; runs of the same resources keep their order.

    size  (runs with the same resources): the number of runs in a task
    """
    classes: dict[Resources, list[Run]] = {}
    for run in runs:
        classes.setdefault(needed(run), []).append(run)
    made = []
    for resources, members in classes.items():
        each = size(members)
        tasks = [members[start : start + each] for start in range(0, len(members), each)]
        made += [Chunk(resources, tasks[start : start + most_tasks]) for start in range(0, len(tasks), most_tasks)]
    return made


def runs_worth(runs: Sequence[Run], seconds: Callable[[Run], float | None], worth: float) -> int:
    """Return how many runs such as these take `worth` seconds together, at least 1; it may exceed len(runs).

    seconds  the expected seconds of a run, None if unknown. Only known ones count; if none is known, return 1
    """
    expected = [length for run in runs if (length := seconds(run)) is not None]
    if not expected:
        return 1
    return max(1, round(worth / max(1.0, sum(expected) / len(expected))))
