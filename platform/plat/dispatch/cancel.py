"""Cancels runs that schedulers have: a mark on each run, and an end for tasks none of whose runs is wanted any more."""

from __future__ import annotations

from collections.abc import Sequence

from plat.dispatch.registry import DISPATCHERS, end_tasks
from plat.store.home import Home
from plat.store.run_directory.attempts import request_cancel
from plat.store.submissions import Record, Submission, open_record


def cancel_runs(home: Home, run_ids: Sequence[str]) -> list[str]:
    """Ask these runs to stop for good; those that a scheduler has, which are returned, are taken out of its queue.

    A task that is shared with runs that go on is not ended: the run's mark is seen by the task, or by the run's own
    trainer at the next step. SchedulerError when a scheduler cannot be asked; the marks stay.
    """
    tasks: dict[tuple[Submission, int], Record] = {}
    held = []
    for run_id in run_ids:
        paths = home.run(run_id)
        if paths.root.is_dir() and not paths.result.exists():
            request_cancel(paths)
            record = open_record(paths)
            if record is not None:
                held.append(run_id)
                tasks[record.submission, record.task] = record
    unwanted: dict[str, list[tuple[Submission, int]]] = {}
    for (submission, task), record in tasks.items():
        scheduler = record.facts.get("scheduler")  # not there in a record that is damaged
        if scheduler in DISPATCHERS and _is_unwanted(home, submission, task):
            unwanted.setdefault(scheduler, []).append((submission, task))
    for scheduler, theirs in unwanted.items():
        end_tasks(scheduler, theirs)
    return held


def _is_unwanted(home: Home, submission: Submission, task: int) -> bool:
    """Whether none of the runs of a task is wanted any more."""
    return all(_is_unwanted_run(home, submission, task, run_id) for run_id in submission.runs_of(task))


def _is_unwanted_run(home: Home, submission: Submission, task: int, run_id: str) -> bool:
    paths = home.run(run_id)
    record = open_record(paths)
    ours = record is not None and (record.submission, record.task) == (submission, task)
    return not ours or paths.cancel.exists() or paths.result.exists()
