"""Record the submissions of runs to a scheduler.

A submission is one call of the scheduler (for SLURM one array). Its unique name is also the scheduler's job name.

    <home>/submissions/<name>/lock            locked by the submitter
                              submission.json the tasks and their runs; written once, before the scheduler is called
                              job.json        the scheduler's job number, once it is known
                              over.json       the submission has ended for good; over-<task>.json: one task has ended

Every file but the lock is created exclusively and never changed. submission.json is written under a lock of the home,
and names only runs that no open submission has, so only one of several submitters submits a run. After a kill the next
submitter can continue: without submission.json the scheduler was never called; without job.json it asks the scheduler
for a job of that name; with job.json, for that number.
"""

from __future__ import annotations

import getpass
import os
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from plat.processes import identification
from plat.store.disk.durable import create, load_json, locked, read_json, set_aside, to_checked_json
from plat.store.home import Home
from plat.store.run_directory.paths import Below, RunPaths

# Set in the processes of a task, so that a lease can name its submission and task.
NAME_VARIABLE, TASK_VARIABLE, RESTART_VARIABLE = "PLAT_SUBMISSION", "PLAT_TASK", "PLAT_RESTART"
_NAME = re.compile(r"[\w-]+")  # of a submission and its folder
LEVELS = 4  # folders above a run's directory that may be the home


_ARRAYS: dict[Path, bool] = {}  # `Submission.is_array` by folder; a submission.json never changes


@dataclass(frozen=True)
class Submission:
    """The folder of one submission. The constructor does not touch the disk."""

    root: Path

    lock = Below("lock")
    # JSON: name, comment, scheduler, cluster, tasks (a list of lists of run ids), slots, by, time
    manifest = Below("submission.json")
    job = Below("job.json")  # JSON: job (the scheduler's number), learnt (its source: the reply, a query, or a task)

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def home(self) -> Home:
        """The home of the submission."""
        return Home(self.root.parent.parent)

    def over(self, task: int | None = None) -> Path:
        """Return the path of over.json of the submission, or of one task. JSON: outcome, reason, time."""
        return self.root / ("over.json" if task is None else f"over-{task}.json")

    def starts(self, task: int) -> Path:
        """Return the path of the file that lists the starts of a task, as JSON lines with process and time.

        It serves schedulers that do not count how often they have started a task.
        """
        return self.root / f"starts-{task}.jsonl"

    def facts(self) -> dict[str, Any]:
        """Return the content of submission.json; {} if it is absent, damaged, or not written by plat (no checksum).

        The record of another submission, which a copy may have brought here, is damage.
        """
        facts, is_checked = load_json(self.manifest)
        is_own = facts is not None and facts.get("name", self.name) == self.name  # plat 0.5 wrote no name
        return facts or {} if is_checked and is_own else {}

    def tasks(self) -> list[list[str]]:
        """Return the run ids of each task; [] if submission.json is missing or damaged."""
        tasks = self.facts().get("tasks")
        return tasks if isinstance(tasks, list) and all(isinstance(ids, list) for ids in tasks) else []

    def runs_of(self, task: int) -> list[str]:
        """Return the run ids of one task; [] if there is no such task."""
        tasks = self.tasks()
        return tasks[task] if 0 <= task < len(tasks) else []

    def is_array(self) -> bool:
        """Return True if the scheduler's name of a task is "<job>_<task>"; False if the job is its only task."""
        if self.root not in _ARRAYS and (facts := self.facts()):
            _ARRAYS[self.root] = bool(facts.get("array", True))
        return _ARRAYS.get(self.root, True)

    def job_id(self) -> str | None:
        """Return the scheduler's job number, None while it is unknown."""
        number = (read_json(self.job) or {}).get("job")
        return None if number is None else str(number)

    def note_job(self, job_id: str, learnt: str) -> None:
        """Record the scheduler's job number and its source (see `job`); do nothing if a number is recorded already.

        A damaged record (a full disk has cut it off) is set aside.
        """
        content = to_checked_json({"job": job_id, "learnt": learnt, "time": time.time()})
        if not create(self.job, content) and self.job_id() is None:
            set_aside(self.job)
            create(self.job, content)

    def note_over(self, outcome: str | None, reason: str, task: int | None = None) -> None:
        """Record that the submission (or one task) is over. Does nothing if that is recorded already.

        Its unfinished runs may then be submitted again. `outcome` is their outcome, None if unknown; `reason` explains
        it in words.
        """
        create(self.over(task), to_checked_json({"outcome": outcome, "reason": reason, "time": time.time()}))

    def is_over(self, task: int | None = None) -> bool:
        """Return True if the whole submission, or this task of it, is over."""
        return self.over().exists() or (task is not None and self.over(task).exists())

    def end(self, task: int) -> dict[str, Any]:
        """Return a dict with the "outcome" (None if unknown) and the "reason" of a task that is over.

        Of a task that is not over, they are None and "".
        """
        return read_json(self.over(task)) or read_json(self.over()) or {"outcome": None, "reason": ""}


@dataclass(frozen=True)
class Record:
    """A run belongs to a task of a submission. `facts`: the content of submission.json."""

    submission: Submission
    task: int
    run_id: str
    facts: dict[str, Any]

    @property
    def attempts(self) -> int:
        """The number of attempts that the run had before."""
        number = (self.facts.get("attempts") or {}).get(self.run_id, 0)
        return number if isinstance(number, int) else 0

    @property
    def is_open(self) -> bool:
        """False if the submission or its task is over, or its folder is gone."""
        return self.submission.root.is_dir() and not self.submission.is_over(self.task)

    @property
    def log(self) -> Path:
        """The output of the task's batch script."""
        return self.submission.root / f"task-{self.task}.txt"

    @property
    def why_not_begun(self) -> str:
        """Why the task is over, and where its output is, for a run that did not begin in it; "" while it is open."""
        reason = str(self.submission.end(self.task).get("reason") or "")
        if not reason or self.submission.job_id() is None:
            return reason
        return f"its job ended before it began: {reason}; see {self.log}"

    @property
    def place(self) -> str:
        """Job and task at the scheduler: "job 123_4 on <cluster>", or "being submitted to ..." without a job number.

        A job of one task is "job 123".
        """
        job = self.submission.job_id()
        if job is None:
            return f"being submitted to {self.facts.get('cluster')} as {self.submission.name}"
        task = f"_{self.task}" if self.submission.is_array() else ""
        return f"job {job}{task} on {self.facts.get('cluster')}"


def new_submission(home: Home) -> Submission:
    """Create the folder of a submission under a unique name."""
    submission = Submission(home.submissions / f"plat-{uuid.uuid4().hex[:12]}")
    submission.root.mkdir(parents=True)
    return submission


def open_submissions(home: Home, scheduler: str = "") -> list[Submission]:
    """Return the submissions that are not over as a whole, oldest first.

    scheduler  leave out the submissions to other schedulers; "" selects all. Submissions without a readable
               submission.json are always included.
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
    manifests = [(submission, submission.facts()) for submission in still_open]
    return [submission for submission, facts in manifests if not facts or facts.get("scheduler") == scheduler]


def submitter() -> dict[str, Any]:
    """Return the facts of `identification.this_process`, and the name of the user as "user"."""
    return {**identification.this_process(), "user": user_name()}


def user_name() -> str:
    """Return the user's name, or the user id if there is no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())


def claim(
    submission: Submission, tasks: Sequence[Sequence[str]], describe: Callable[[list[list[str]]], Mapping[str, Any]]
) -> dict[str, Record]:
    """Give the runs of these tasks that no open submission has to this one; return their records by run id.

    tasks     the ids of the runs of each task
    describe  (the ids that are left, by task): further content of submission.json; not called if none is left

    The file is not flushed to disk. Raises HomeError if the lock of the home cannot be taken.
    """
    home = submission.home
    with locked(home.submissions_lock):
        held = newest_records(home)
        free = [[run_id for run_id in ids if run_id not in held or not held[run_id].is_open] for ids in tasks]
        left = [ids for ids in free if ids]
        if not left:
            return {}
        before = {run_id: len(home.run(run_id).attempts()) for ids in left for run_id in ids}
        numbers = [record.facts.get("number", 0) for record in held.values()]
        content = {
            **describe(left),
            "name": submission.name,
            "number": 1 + max(numbers, default=0),
            "tasks": left,
            "attempts": {run_id: number for run_id, number in before.items() if number},
            "time": time.time(),
        }
        create(submission.manifest, to_checked_json(content), sync=False)
    return {run_id: Record(submission, task, run_id, content) for task, ids in enumerate(left) for run_id in ids}


def newest_record(paths: RunPaths) -> Record | None:
    """Return the run's newest record, None if the run was never submitted."""
    home = _home_of(paths)
    return None if home is None else newest_records(home).get(paths.id)


def open_record(paths: RunPaths) -> Record | None:
    """Return the run's newest record if there is one and it `is_open`, else None."""
    record = newest_record(paths)
    return record if record is not None and record.is_open else None


def damaged_submissions(home: Home) -> list[Submission]:
    """Return the submissions that are not over and whose submission.json cannot be read: their runs are unknown."""
    return [each for each in open_submissions(home) if each.manifest.exists() and not each.facts()]


# By folder of submissions: the (name, inode) of those that were read, and the newest record of each run. A
# submission.json never changes.
_KNOWN: dict[Path, tuple[set[tuple[str, int]], dict[str, Record]]] = {}


def newest_records(home: Home) -> Mapping[str, Record]:
    """Return the newest record of each run that was ever submitted, by run id."""
    folder = home.submissions
    try:
        with os.scandir(folder) as entries:
            found = {(entry.name, entry.inode()) for entry in entries if _NAME.fullmatch(entry.name)}
    except OSError:
        return {}
    read, newest = _KNOWN.setdefault(folder, (set(), {}))
    if not read <= found:  # a submission was removed
        read, newest = _KNOWN[folder] = (set(), {})
    for each in found - read:
        submission = Submission(folder / each[0])
        facts = submission.facts()
        if facts or submission.is_over():
            read.add(each)
        for task, ids in enumerate(facts.get("tasks") or ()):
            for run_id in ids:
                record = Record(submission, task, run_id, facts)
                if run_id not in newest or _order(record) > _order(newest[run_id]):
                    newest[run_id] = record
    return newest


def _order(record: Record) -> tuple[float, float]:
    """Return a key that is larger for the later of two submissions. Those of plat 0.5 have no number."""
    return record.facts.get("number", 0), record.facts.get("time", 0.0)


def _home_of(paths: RunPaths) -> Home | None:
    """Return the home of a run if it has submissions, else None."""
    return next((Home(parent) for parent in paths.root.parents[:LEVELS] if (parent / "submissions").is_dir()), None)


def _find_submission(paths: RunPaths, name: str) -> Submission:
    """Return the submission of this name in the home of a run; its folder need not exist."""
    home = _home_of(paths) or Home(paths.root.parents[min(1, len(paths.root.parents) - 1)])
    return Submission(home.submissions / name)


def is_task_over(task: Any, find: Callable[[str], Submission]) -> bool:
    """Return True if the scheduler's task that a file names is over, or is an earlier start of this process's task.

    task   a value in the form of `this_task`; the result is False for every other value
    find   returns the submission of a name
    """
    if not isinstance(task, dict) or not isinstance(task.get("submission"), str):
        return False
    own = this_task()
    if own is not None and (own["submission"], own["task"]) == (task["submission"], task.get("task")):
        restart = task.get("restart", 0)
        return isinstance(restart, int) and bool(own["restart"] > restart)
    return find(task["submission"]).is_over(task.get("task"))


def is_task_of_run_over(paths: RunPaths, task: Any) -> bool:
    """Return True if the task that a run's lease names is over, or is an earlier start of this process's task."""
    return is_task_over(task, partial(_find_submission, paths))


def this_task() -> dict[str, Any] | None:
    """Return "submission" (name), "task" and "restart" (numbers) of the task of this process; None outside a task."""
    name = os.environ.get(NAME_VARIABLE)
    if not name:
        return None
    return {
        "submission": name,
        "task": int(os.environ.get(TASK_VARIABLE, "0")),
        "restart": int(os.environ.get(RESTART_VARIABLE, "0")),
    }
