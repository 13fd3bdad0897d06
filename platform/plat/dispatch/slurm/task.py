"""Inside a job: `python -m plat.dispatch.slurm.task FOLDER` does the runs of one task of a submission.

SLURM's signal (SIGUSR2, ahead of the time limit or of a preemption) lets the runs save a checkpoint; then the job goes
back into the queue, and its next start goes on from there. On SIGTERM the runs save, too, and it is left to SLURM
whether the job comes back.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from plat.dispatch.api import SchedulerError
from plat.dispatch.slurm.commands import Slurm
from plat.dispatch.slurm.stops import TIMEOUT, Stops, reason_of_stop
from plat.dispatch.task import Task
from plat.errors import PlatError
from plat.runner.failures import RETRIES
from plat.spec.runs import Run
from plat.store.run_directory.attempts import record_failure
from plat.store.run_directory.state import run_state
from plat.store.submissions import Submission
from plat.units import are, counted


class SlurmTask(Task):
    """One start of one task, as SLURM's environment describes it."""

    def __init__(self, submission: Submission) -> None:
        number = int(os.environ.get("SLURM_ARRAY_TASK_ID") or 0)
        super().__init__(submission, number, int(os.environ.get("SLURM_RESTART_COUNT") or 0))
        self.job_id = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ.get("SLURM_JOB_ID") or "0"
        self.stops = Stops(submission.root / f"stops-{number}.jsonl")

    def go(self) -> int:
        """Do the runs; the exit code of the job."""
        self.submission.note_job(self.job_id, "task")
        left = self.do_runs(signal.SIGUSR2, signal.SIGTERM, signal.SIGINT)
        if left and signal.SIGUSR2 in self.signals:
            return self._go_back(left)
        return 0

    def _go_back(self, left: list[Run]) -> int:
        """Put the job back into the queue, unless its runs cannot make their way within the time limit."""
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
            print(f"{error.what}: whoever next gives `plat sweep` submits what is left", flush=True)
        return 0

    def _fail(self, run: Run) -> None:
        minutes = self.manifest.get("minutes")
        reason = f"no step further within the time limit of {minutes} minutes, {RETRIES['timeout'] + 1} times"
        mend = "raise the time (`time:` of the profile, or cluster.time=), or save more often (train.checkpoint_every)"
        record_failure(self.home.run(run.id), "failed:timeout", reason, f"{reason}: {mend}")


def main(folder: str) -> int:
    """Do the runs of the task that this job is; the exit code of the job."""
    try:
        return SlurmTask(Submission(Path(folder).absolute())).go()
    except PlatError as error:
        print(error.render(), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
