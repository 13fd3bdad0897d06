"""What submitit executes in a job: `RunTask` executes the runs of one task of a submission.

On SIGUSR2 (sent by SLURM ahead of the time limit or a preemption) the runs save a checkpoint. submitit then puts the
job back into the queue, and its next start resumes the runs. On SIGTERM the runs save too; SLURM decides if the job
returns.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.dispatch.task import Task
from plat.errors import PlatError
from plat.plain_files import json_objects, read_text
from plat.runner.failures import RETRIES
from plat.spec.expansion.run import Run
from plat.store.coordination.submissions import Submission
from plat.store.disk.durable import append_line
from plat.store.run_directory.attempts import record_failure
from plat.store.run_directory.state import run_state
from plat.units import are, counted
from plat.words.outcomes import failed

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

SIGNAL = "USR2"  # sent ahead of a time limit; NCCL catches USR1, and so submitit sends this one
TIMEOUT, PREEMPTED = "timeout", "preempted"
LATE = 60.0  # seconds by which SLURM's signal may be early


def reason_of_stop(seconds: float, manifest: Mapping[str, Any]) -> str:
    """Return why SLURM stops this task: TIMEOUT if seconds >= limit - signal_before - LATE, else PREEMPTED.

    seconds   since the task started
    manifest  the content of submission.json

    Both come as the same signal. The time limit is from SLURM's environment variables; without them it is `minutes` of
    `manifest`.
    """
    begin, end = os.environ.get("SLURM_JOB_START_TIME", ""), os.environ.get("SLURM_JOB_END_TIME", "")
    if begin.isdigit() and end.isdigit():
        limit = float(end) - float(begin)
    else:
        limit = 60.0 * float(manifest.get("minutes") or 0)
    ahead = float(manifest.get("signal_before", 0)) + LATE
    return TIMEOUT if limit and seconds >= limit - ahead else PREEMPTED


class Stops:
    """The stops of a task, one JSON line each: the cause, and the step that each run had reached."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, why: str, steps: Mapping[str, int]) -> None:
        """Append a stop: its cause (TIMEOUT or PREEMPTED), and run id -> step."""
        append_line(self._path, {"why": why, "steps": dict(steps), "time": time.time()})

    def is_stuck(self, run_id: str) -> bool:
        """Return True if a run met its time limit more often than RETRIES["timeout"] and made no progress meanwhile.

        No progress: at the last such stop it was at no later step than RETRIES["timeout"] such stops before.
        """
        stops = [stop for stop in json_objects(read_text(self._path)) if stop.get("why") == TIMEOUT]
        steps = [stop["steps"][run_id] for stop in stops if run_id in stop.get("steps", {})]
        most = RETRIES["timeout"]
        return len(steps) > most and steps[-1] <= steps[-1 - most]


class RunTask:
    """Task `number` of the submission in `folder`, as submitit pickles it.

    submitit's handler of SIGUSR2 calls `checkpoint` and requeues the job. It may interrupt any line of Python, so it is
    called here, after the runs have stopped.
    """

    def __init__(self, folder: str, number: int) -> None:
        self.folder = folder
        self.number = number
        self._task: SlurmTask | None = None

    def __call__(self) -> None:
        """Execute the runs of the task. Ends the process with code 1 after a PlatError."""
        checkpoint_and_requeue = signal.getsignal(signal.SIGUSR2)
        try:
            self._task = SlurmTask(Submission(Path(self.folder)), self.number)
            goes_back = self._task.execute()
        except PlatError as error:
            print(error.render(), file=sys.stderr)
            sys.exit(1)
        if not goes_back or not callable(checkpoint_and_requeue):
            return
        try:
            checkpoint_and_requeue(signal.SIGUSR2, None)  # ends the process
        except Exception as error:
            print(f"the job was not requeued ({error}): the next `plat sweep` submits what is left", flush=True)

    def checkpoint(self) -> DelayedSubmission | None:
        """Return what the next start of the job executes; None if no run is left for it. submitit calls this."""
        from submitit.helpers import DelayedSubmission

        if self._task is not None and not self._task.left:
            return None
        return DelayedSubmission(RunTask(self.folder, self.number))


class SlurmTask(Task):
    """One start of one task. `left`: the runs that another start continues, once `execute` has returned."""

    def __init__(self, submission: Submission, number: int) -> None:
        super().__init__(submission, number, int(os.environ.get("SLURM_RESTART_COUNT") or 0))
        self.job_id = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ.get("SLURM_JOB_ID") or "0"
        self.stops = Stops(submission.root / f"stops-{number}.jsonl")
        self.left: list[Run] = []

    def execute(self) -> bool:
        """Execute the runs. Return True if SIGUSR2 stopped them and the job is to go back into the queue.

        Runs that make no progress within the time limit are recorded as failed, and do not go back.
        """
        self.submission.note_job(self.job_id, "task")
        self.left = self.do_runs(signal.SIGUSR2, signal.SIGTERM, signal.SIGINT)
        if not self.left or signal.SIGUSR2 not in self.signals:
            return False
        why = reason_of_stop(time.monotonic() - self.started, self.manifest)
        self.stops.note(why, {run.id: run_state(self.home.run(run.id)).step or 0 for run in self.left})
        if why == TIMEOUT:
            for run in self.left:
                if self.stops.is_stuck(run.id):
                    self._fail(run)
            self.left = [run for run in self.left if self.is_unfinished(run)]
        if self.left:
            left = f"{counted(len(self.left), 'run')} {are(len(self.left))} not done"
            print(f"{why}: {left}, so the job goes back into the queue", flush=True)
        return bool(self.left)

    def _fail(self, run: Run) -> None:
        minutes = self.manifest.get("minutes")
        reason = f"reached the limit of {minutes} minutes {RETRIES['timeout'] + 1} times without a further step"
        fix = "raise the time (`timeout_min` of the profile), or save more often (train.checkpoint_every)"
        record_failure(self.home.run(run.id), failed("timeout"), reason, f"{reason}: {fix}")
