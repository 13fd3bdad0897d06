"""Inside a job: `python -m plat.dispatch.slurm.task FOLDER` does the runs of one task of a submission.

Promised: only runs that are still in the hands of this task are done, each under its lease. A local dispatcher does
them, so torch and verl are imported once. SLURM's signal (SIGUSR2, ahead of the time limit or of a preemption) lets
the runs save a checkpoint; then the job goes back into the queue, and its next start goes on from there. On SIGTERM
the runs save, too, and it is left to SLURM whether the job comes back. Neither the internet nor MLflow is needed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from plat.dispatch.local.dispatcher import LocalDispatcher
from plat.dispatch.slurm.commands import SchedulerError, Slurm
from plat.errors import HomeError, PlatError
from plat.outcomes import ENDED_ON_REQUEST, is_failure
from plat.runner.failures import RETRIES
from plat.spec.runs import Run
from plat.store.durable import append_line, read_json
from plat.store.home import Home
from plat.store.run_directory.attempts import record_failure
from plat.store.run_directory.recorded_run import read_run
from plat.store.run_directory.state import run_state
from plat.store.submissions import NAME_VARIABLE, RESTART_VARIABLE, TASK_VARIABLE, Submission, newest_record

TICK = 0.5  # seconds; a signal ends the wait at once
LATE = 60.0  # seconds by which SLURM's signal may be early


class Task:
    """One start of one task."""

    def __init__(self, submission: Submission) -> None:
        self.submission = submission
        self.home = Home(submission.root.parent.parent)
        self.number = int(os.environ.get("SLURM_ARRAY_TASK_ID") or 0)
        self.job_id = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ.get("SLURM_JOB_ID") or "0"
        self.signals: list[int] = []
        self.started = time.monotonic()
        self.stops = submission.root / f"stops-{self.number}.jsonl"
        self.manifest: dict[str, Any] = {}

    def go(self) -> int:
        """Do the runs; the exit code of the job."""
        os.environ[NAME_VARIABLE] = self.submission.name
        os.environ[TASK_VARIABLE] = str(self.number)
        os.environ[RESTART_VARIABLE] = os.environ.get("SLURM_RESTART_COUNT") or "0"
        for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, frame: self.signals.append(received))
        self.submission.note_job(self.job_id, "task")
        manifest = read_json(self.submission.manifest)
        if manifest is None:
            raise HomeError("the submission says not what to do", where=str(self.submission.manifest))
        if self.submission.is_over(self.number):
            print("this submission was given up, and its runs are in other hands: nothing to do")
            return 0
        self.manifest = manifest
        runs = self._runs(manifest["tasks"][self.number])
        self._execute(runs)
        left = [run for run in runs if self._is_unfinished(run)]
        if left and signal.SIGUSR2 in self.signals:
            return self._go_back(left)
        return 0

    def _runs(self, ids: list[str]) -> list[Run]:
        """Those that are still ours, and that nobody has asked to stop for good."""
        runs = []
        for run_id in ids:
            paths = self.home.run(run_id)
            record = newest_record(paths)
            if record is None or (record.submission.name, record.task) != (self.submission.name, self.number):
                print(f"{run_id}: it was handed to another submission")
            elif paths.cancel.exists():
                print(f"{run_id}: cancelled before it began")
            else:
                try:
                    runs.append(read_run(paths))
                except PlatError as error:
                    record_failure(paths, "failed:error", error.what, error.render())
                    print(error.render())
        return runs

    def _execute(self, runs: list[Run]) -> None:
        slots = int(self.manifest.get("slots", 1))
        dispatcher = LocalDispatcher(self.home, lambda run: self.home.run(run.id), slots=slots)
        try:
            dispatcher.submit(runs)
            while dispatcher.active():
                if self.signals and not dispatcher.stopping:
                    print(
                        f"asked to stop ({signal.Signals(self.signals[0]).name}): the runs save their state", flush=True
                    )
                    dispatcher.stop()
                for change in dispatcher.poll(TICK):
                    words = f"{change.state} {change.outcome or ''} {change.title}: {change.reason}"
                    print(f"[{time.monotonic() - self.started:8.1f} s] {words}", flush=True)
        finally:
            dispatcher.close()

    def _is_unfinished(self, run: Run) -> bool:
        now = run_state(self.home.run(run.id))
        return now.state != "done" and not is_failure(now.outcome) and now.outcome not in ENDED_ON_REQUEST

    def _go_back(self, left: list[Run]) -> int:
        """Put the job back into the queue, unless its runs cannot make their way within the time limit."""
        why = self._why()
        steps = {run.id: run_state(self.home.run(run.id)).step or 0 for run in left}
        append_line(self.stops, {"why": why, "steps": steps, "time": time.time()})
        if why == "timeout":
            for run in left:
                if self._is_stuck(run.id):
                    self._fail(run)
            left = [run for run in left if self._is_unfinished(run)]
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
        return Task(Submission(Path(folder).absolute())).go()
    except PlatError as error:
        print(error.render(), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
