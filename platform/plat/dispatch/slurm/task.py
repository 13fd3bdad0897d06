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
from typing import Any

from plat.dispatch.api import SchedulerError
from plat.dispatch.slurm.commands import Slurm
from plat.dispatch.task import Task
from plat.errors import PlatError
from plat.runner.failures import RETRIES
from plat.spec.runs import Run
from plat.store.durable import append_line
from plat.store.run_directory.attempts import record_failure
from plat.store.run_directory.state import run_state
from plat.store.submissions import Submission

LATE = 60.0  # seconds by which SLURM's signal may be early


class SlurmTask(Task):
    """One start of one task, as SLURM's environment describes it."""

    def __init__(self, submission: Submission) -> None:
        number = int(os.environ.get("SLURM_ARRAY_TASK_ID") or 0)
        super().__init__(submission, number, int(os.environ.get("SLURM_RESTART_COUNT") or 0))
        self.job_id = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ.get("SLURM_JOB_ID") or "0"
        self.stops = submission.root / f"stops-{number}.jsonl"

    def go(self) -> int:
        """Do the runs; the exit code of the job."""
        self.submission.note_job(self.job_id, "task")
        left = self.do_runs(signal.SIGUSR2, signal.SIGTERM, signal.SIGINT)
        if left and signal.SIGUSR2 in self.signals:
            return self._go_back(left)
        return 0

    def _go_back(self, left: list[Run]) -> int:
        """Put the job back into the queue, unless its runs cannot make their way within the time limit."""
        why = self._why()
        steps = {run.id: run_state(self.home.run(run.id)).step or 0 for run in left}
        append_line(self.stops, {"why": why, "steps": steps, "time": time.time()})
        if why == "timeout":
            for run in left:
                if self._is_stuck(run.id):
                    self._fail(run)
            left = [run for run in left if self.is_unfinished(run)]
        if not left:
            return 0
        job = os.environ.get("SLURM_ARRAY_JOB_ID")
        name = f"{job}_{self.number}" if job else self.job_id
        print(f"{why}: {len(left)} runs are not done, so job {name} goes back into the queue", flush=True)
        try:
            Slurm().requeue(name)
        except SchedulerError as error:
            print(f"{error.what}: whoever next gives `plat sweep` submits what is left", flush=True)
        return 0

    def _why(self) -> str:
        """ "timeout" or "preempted": judged by how long the task has run, whatever the limit is."""
        limit = 60.0 * float(self.manifest.get("minutes") or 0)
        end = os.environ.get("SLURM_JOB_END_TIME", "")
        begin = os.environ.get("SLURM_JOB_START_TIME", "")
        if end.isdigit() and begin.isdigit():
            limit = float(end) - float(begin)
        ahead = float(self.manifest.get("signal_before", 0)) + LATE
        return "timeout" if limit and time.monotonic() - self.started >= limit - ahead else "preempted"

    def _is_stuck(self, run_id: str) -> bool:
        """Whether a run has met its time limit too often without a step forward."""
        lines = self.stops.read_text().splitlines()
        stops = [record for record in map(_parsed, lines) if record.get("why") == "timeout"]
        steps = [record["steps"][run_id] for record in stops if run_id in record.get("steps", {})]
        most = RETRIES["timeout"]
        return len(steps) > most and steps[-1] <= steps[-1 - most]

    def _fail(self, run: Run) -> None:
        minutes = self.manifest.get("minutes")
        reason = f"no step further within the time limit of {minutes} minutes, {RETRIES['timeout'] + 1} times"
        mend = "raise the time (`time:` of the profile, or cluster.time=), or save more often (train.checkpoint_every)"
        record_failure(self.home.run(run.id), "failed:timeout", reason, f"{reason}: {mend}")


def _parsed(line: str) -> dict[str, Any]:
    import json

    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def main(folder: str) -> int:
    try:
        return SlurmTask(Submission(Path(folder).absolute())).go()
    except PlatError as error:
        print(error.render(), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
