"""Inside a job: `python -m plat.dispatch.slurm.slurm_task FOLDER` executes the runs of one task of a submission.

On SIGUSR2 (sent by SLURM ahead of the time limit or a preemption) the runs save a checkpoint. The job then goes back
into the queue, and its next start resumes the runs. On SIGTERM the runs save too; SLURM decides if the job returns.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plat.dispatch.dispatcher import SchedulerError
from plat.dispatch.slurm.commands import Slurm
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


class SlurmTask(Task):
    """One start of one task, described by SLURM's environment variables."""

    def __init__(self, submission: Submission) -> None:
        number = int(os.environ.get("SLURM_ARRAY_TASK_ID") or 0)
        super().__init__(submission, number, int(os.environ.get("SLURM_RESTART_COUNT") or 0))
        self.job_id = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ.get("SLURM_JOB_ID") or "0"
        self.stops = Stops(submission.root / f"stops-{number}.jsonl")

    def go(self) -> int:
        """Execute the runs; after SIGUSR2, requeue the job for those that are left. Return its exit code, always 0."""
        self.submission.note_job(self.job_id, "task")
        left = self.do_runs(signal.SIGUSR2, signal.SIGTERM, signal.SIGINT)
        if left and signal.SIGUSR2 in self.signals:
            return self._go_back(left)
        return 0

    def _go_back(self, left: list[Run]) -> int:
        """Requeue the job, unless its runs make no progress within the time limit: these are recorded as failed."""
        why = reason_of_stop(time.monotonic() - self.started, self.manifest)
        self.stops.note(why, {run.id: run_state(self.home.run(run.id)).step or 0 for run in left})
        if why == TIMEOUT:
            for run in left:
                if self.stops.is_stuck(run.id):
                    self._fail(run)
            left = [run for run in left if self.is_unfinished(run)]
        if not left:
            return 0
        job = os.environ.get("SLURM_ARRAY_JOB_ID")
        name = f"{job}_{self.number}" if job else self.job_id
        print(
            f"{why}: {counted(len(left), 'run')} {are(len(left))} not done, so job {name} goes back into the queue",
            flush=True,
        )
        try:
            Slurm().requeue(name)
        except SchedulerError as error:
            print(f"{error.what}: the next `plat sweep` submits what is left", flush=True)
        return 0

    def _fail(self, run: Run) -> None:
        minutes = self.manifest.get("minutes")
        reason = f"reached the limit of {minutes} minutes {RETRIES['timeout'] + 1} times without a further step"
        fix = "raise the time (`time:` of the profile, or cluster.time=), or save more often (train.checkpoint_every)"
        record_failure(self.home.run(run.id), failed("timeout"), reason, f"{reason}: {fix}")


def main(folder: str) -> int:
    """Execute the runs of this job's task and return the exit code of the job; 1 after a PlatError."""
    try:
        return SlurmTask(Submission(Path(folder).absolute())).go()
    except PlatError as error:
        print(error.render(), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
