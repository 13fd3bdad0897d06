"""Hands one chunk of runs to SLURM, so that whoever is killed at whatever point, each run is submitted exactly once.

The order is what makes it safe (see also `plat.store.submissions`):

    1  a folder with a new name, locked by us; sbatch inherits the lock
    2  the next record of each run, created exclusively: the runs whose record we did not get belong to others
    3  submission.json and the script; then everything so far is flushed to the disk, once
    4  sbatch
    5  job.json

`plat.dispatch.slurm.refresh` goes on where a submitter was killed, or where sbatch did not answer.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import sys
import time
from collections.abc import Iterator

from plat.dispatch.slurm.commands import SchedulerError, Slurm
from plat.dispatch.slurm.packing import Chunk
from plat.dispatch.slurm.profile import Profile
from plat.dispatch.slurm.script import script_text
from plat.store.durable import NO_LOCKS, create, to_checked_json, to_json, write
from plat.store.home import Home
from plat.store.submissions import Submission, claim, new_submission, submitter

SCHEDULER = "slurm"


def submit(home: Home, slurm: Slurm, profile: Profile, chunk: Chunk, parallel: int) -> Submission | None:
    """Submit the runs of a chunk that nobody else has; None when somebody has all of them.

    SchedulerError when sbatch fails. When it is `certain`, the submission is over and its runs are free again;
    otherwise they stay in its hands until `refresh` knows whether SLURM has the job.
    """
    cluster = slurm.site().cluster
    by = submitter()
    submission = new_submission(home)
    with _locked(submission, to_json(by)) as lock:
        facts = {"scheduler": SCHEDULER, "cluster": cluster, "job_name": submission.name, "by": by}
        tasks: list[list[str]] = []
        for runs in chunk.tasks:
            ours = [run.id for run in runs if claim(home.run(run.id), submission, len(tasks), facts)]
            if ours:
                tasks.append(ours)
        if not tasks:
            submission.note_over(None, "other submissions have all of its runs")
            return None
        comment = f"plat {submission.name} by {by['user']}@{by['host']}"
        script = script_text(submission, comment, profile, chunk.needed, len(tasks), profile.runs_at_once, parallel)
        write(submission.script, script.encode(), sync=False)
        manifest = {
            **facts,
            "name": submission.name,
            "comment": comment,
            "tasks": tasks,
            "slots": profile.runs_at_once,
            "minutes": chunk.needed.minutes,
            "signal_before": profile.signal_before,
            "time": time.time(),
        }
        create(submission.manifest, to_checked_json(manifest), sync=False)
        _flush(home)
        if submission.is_over():  # somebody took us for dead
            return None
        try:
            job_id = slurm.submit(str(submission.script), [lock])
        except SchedulerError as error:
            if error.certain:
                submission.note_over(None, f"not accepted: {error.what}")
            raise
        submission.note_job(job_id, "sbatch")
    return submission


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
