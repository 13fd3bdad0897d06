"""Submissions: runs that were handed to a scheduler, by whom, and where they are there.

A submission is one call of the scheduler (for SLURM one array). It has a folder of its own and a name that nobody else
uses, which is also the scheduler's job name. Each of its runs has a record that names it, in `runs/<id>/submissions/`.

    <home>/submissions/<name>/lock            locked by the submitter, and by the scheduler command that it has called
                              submission.json what it is to do, written once, just before the scheduler is called
                              job.json        the scheduler's number for it, as soon as anybody knows that
                              over.json       nothing of it runs any more, or ever will; over-<task>.json: of one task
    <home>/runs/<id>/submissions/001.json     the run belongs to this task of this submission

Promised: every one of these files is created exclusively and never changed. A run is handed over only by whoever has
created its newest record, and a further record is created only when the submission that the newest one names is over
for this run. So of any number of submitters one hands a run over, and one that is killed at any point leaves a state
from which the next can go on: without submission.json the scheduler was never called; with it and without job.json the
scheduler is asked for a job of that name; with job.json it is asked for that number.
"""

from __future__ import annotations

import getpass
import os
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.store import process
from plat.store.durable import create, read_json, to_checked_json
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths

# Set in the processes of a task, so that leases can say which task of which submission took them.
NAME_VARIABLE, TASK_VARIABLE, RESTART_VARIABLE = "PLAT_SUBMISSION", "PLAT_TASK", "PLAT_RESTART"
_NAME = re.compile(r"[\w-]+")  # of a submission: a folder's
LEVELS = 4  # folders above a run's directory among which the home is


@dataclass(frozen=True)
class Submission:
    """The folder of one submission. Creating the object touches nothing."""

    root: Path

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def manifest(self) -> Path:
        """JSON: name, comment, scheduler, cluster, tasks (a list of lists of run ids), slots, by, time."""
        return self.root / "submission.json"

    @property
    def script(self) -> Path:
        return self.root / "script.sh"

    @property
    def job(self) -> Path:
        """JSON: job (the scheduler's number), learnt (from the answer to the call, by asking, or from a task)."""
        return self.root / "job.json"

    def over(self, task: int | None = None) -> Path:
        """JSON: outcome, reason. Of the whole submission, or of one task."""
        return self.root / ("over.json" if task is None else f"over-{task}.json")

    def starts(self, task: int) -> Path:
        """JSON lines: when, where and by which process a task was started. Written where the scheduler counts none."""
        return self.root / f"starts-{task}.jsonl"

    def facts(self) -> dict[str, Any]:
        """What submission.json says; nothing while it is not there."""
        return read_json(self.manifest) or {}

    def tasks(self) -> list[list[str]]:
        """The ids of the runs of each task; none where submission.json is missing or damaged."""
        tasks = self.facts().get("tasks")
        return tasks if isinstance(tasks, list) and all(isinstance(ids, list) for ids in tasks) else []

    def runs_of(self, task: int) -> list[str]:
        """The ids of the runs of one task; none when there is no such task."""
        tasks = self.tasks()
        return tasks[task] if 0 <= task < len(tasks) else []

    def job_id(self) -> str | None:
        """The scheduler's number, None while nobody knows it."""
        number = (read_json(self.job) or {}).get("job")
        return None if number is None else str(number)

    def note_job(self, job_id: str, learnt: str) -> None:
        """Write down the scheduler's number; the first to know it writes."""
        create(self.job, to_checked_json({"job": job_id, "learnt": learnt, "time": time.time()}))

    def note_over(self, outcome: str | None, reason: str, task: int | None = None) -> None:
        """Write down that it (or one task) is over: its runs that are not done may be handed over again."""
        create(self.over(task), to_checked_json({"outcome": outcome, "reason": reason, "time": time.time()}))

    def is_over(self, task: int | None = None) -> bool:
        return self.over().exists() or (task is not None and self.over(task).exists())

    def end(self, task: int) -> dict[str, Any]:
        """How a task that is over ended: outcome (None where that is not known) and reason."""
        return read_json(self.over(task)) or read_json(self.over()) or {"outcome": None, "reason": ""}


@dataclass(frozen=True)
class Record:
    """That a run was handed to a task of a submission; `attempts` is how many attempts it had before."""

    submission: Submission
    task: int
    attempts: int
    facts: dict[str, Any]

    @property
    def is_open(self) -> bool:
        """Whether the run is still in the scheduler's hands, as far as anybody has noted."""
        return bool(self.facts) and self.submission.root.is_dir() and not self.submission.is_over(self.task)

    @property
    def place(self) -> str:
        """Where it is, in words."""
        job = self.submission.job_id()
        if job is None:
            return f"being submitted to {self.facts.get('cluster')} as {self.submission.name}"
        return f"job {job}_{self.task} on {self.facts.get('cluster')}"


def new_submission(home: Home) -> Submission:
    """A folder for a submission, with a name that nobody else uses."""
    submission = Submission(home.submissions / f"plat-{uuid.uuid4().hex[:12]}")
    submission.root.mkdir(parents=True)
    return submission


def open_submissions(home: Home, scheduler: str = "") -> list[Submission]:
    """Those that are not over as a whole, oldest first.

    With `scheduler` only those handed to it; one whose submission.json is missing was handed to nobody, and is
    everybody's to give up.
    """
    try:
        with os.scandir(home.submissions) as entries:
            folders = [(entry.stat().st_mtime_ns, entry.name) for entry in entries if entry.is_dir()]
    except OSError:
        return []
    submissions = [Submission(home.submissions / name) for _, name in sorted(folders)]
    still_open = [submission for submission in submissions if not submission.is_over()]
    if not scheduler:
        return still_open
    manifests = [(submission, read_json(submission.manifest)) for submission in still_open]
    return [submission for submission, facts in manifests if facts is None or facts.get("scheduler") == scheduler]


def submitter() -> dict[str, Any]:
    """Who submits: this process, on this machine, and whose it is."""
    return {**process.this_process(), "user": user_name()}


def user_name() -> str:
    """Whose this process is; the number of a user without a name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())


def claim(paths: RunPaths, submission: Submission, task: int, facts: Mapping[str, Any]) -> Record | None:
    """Create the run's next record; None when the run is in the hands of another submission, or just went there.

    Not flushed to the disk by itself: the submitter does that once for all its records, before it calls the scheduler.
    """
    numbers = _numbers(paths)
    if numbers and _read(paths, numbers[-1]).is_open:
        return None
    attempts = len(paths.attempts())
    content = {**facts, "submission": submission.name, "task": task, "attempts": attempts, "time": time.time()}
    paths.submissions.mkdir(exist_ok=True)
    is_ours = create(_file(paths, (numbers[-1] if numbers else 0) + 1), to_checked_json(content), sync=False)
    return Record(submission, task, attempts, content) if is_ours else None


def newest_record(paths: RunPaths) -> Record | None:
    """The record that says in whose hands the run is, None when it was never handed to a scheduler."""
    numbers = _numbers(paths)
    return _read(paths, numbers[-1]) if numbers else None


def newest_file(paths: RunPaths) -> Path | None:
    """The file of the newest record, None where there is none."""
    numbers = _numbers(paths)
    return _file(paths, numbers[-1]) if numbers else None


def open_record(paths: RunPaths) -> Record | None:
    """The newest record, unless what it names is over."""
    record = newest_record(paths)
    return record if record is not None and record.is_open else None


def find_submission(paths: RunPaths, name: str) -> Submission:
    """The submission of this name in the home of a run."""
    folders = [parent / "submissions" / name for parent in paths.root.parents[:LEVELS]]
    return Submission(next((folder for folder in folders if folder.is_dir()), folders[1]))


def this_task() -> dict[str, Any] | None:
    """The task of a submission that this process belongs to: submission, task, restart. None outside of one."""
    name = os.environ.get(NAME_VARIABLE)
    if not name:
        return None
    return {
        "submission": name,
        "task": int(os.environ.get(TASK_VARIABLE, "0")),
        "restart": int(os.environ.get(RESTART_VARIABLE, "0")),
    }


def _numbers(paths: RunPaths) -> list[int]:
    try:
        names = os.listdir(paths.submissions)
    except OSError:
        return []
    return sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())


def _file(paths: RunPaths, number: int) -> Path:
    return paths.submissions / f"{number:03d}.json"


def _read(paths: RunPaths, number: int) -> Record:
    """A record; one that is damaged (a power cut) names no submission, and so is over."""
    facts = read_json(_file(paths, number)) or {}
    task, attempts, name = (facts.get(key) for key in ("task", "attempts", "submission"))
    if not (isinstance(task, int) and isinstance(attempts, int) and isinstance(name, str) and _NAME.fullmatch(name)):
        return Record(find_submission(paths, "damaged"), 0, 0, {})
    return Record(find_submission(paths, name), task, attempts, facts)
