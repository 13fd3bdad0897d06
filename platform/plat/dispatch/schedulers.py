"""Ask schedulers about the runs that were handed to them, and cancel such runs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from plat.dispatch import registry
from plat.dispatch.setting import OVER, PENDING, STOP, TaskKey, TaskState, search_id
from plat.errors import PluginError
from plat.store.coordination.submissions import (
    Record,
    Submission,
    newest_record,
    newest_records,
    open_record,
    open_submissions,
)
from plat.store.home import Home
from plat.store.run_directory.attempts import request_cancel
from plat.store.run_directory.state import RunState
from plat.words.states import RunStatus


def ask_schedulers(home: Home, *, note: bool = True) -> Mapping[TaskKey, TaskState]:
    """Return (submission name, task index) -> state for the tasks of this home that schedulers have.

    note  record in the home which tasks are over

    Empty if nothing was handed to a scheduler. A scheduler that does not answer, and a plug-in that cannot be loaded,
    contribute nothing (`plat doctor` names such a plug-in).
    """
    asked = {submission.facts().get("scheduler") for submission in open_submissions(home)}
    tasks: dict[TaskKey, TaskState] = {}
    for name in registry.names():
        if name in asked or None in asked:  # any scheduler may give up a submission without a submission.json
            with contextlib.suppress(PluginError):
                tasks |= registry.find_dispatcher(name).task_states(home, note)
    return tasks


def corrected(home: Home, run_id: str, state: RunState, tasks: Mapping[TaskKey, TaskState]) -> RunState:
    """Return the state of a run, corrected where its scheduler knows more than the run's own files.

    tasks  from `ask_schedulers`

    A lease of another machine cannot be checked from here. The run therefore seems to be running although its job is
    pending (then it is QUEUED) or over (then it is INTERRUPTED, or MISSING before its first attempt).
    """
    if not tasks or state.state not in (RunStatus.RUNNING, RunStatus.QUEUED):
        return state
    record = newest_record(home.run(run_id))
    if record is None or state.submission != record.submission.name:  # it runs here
        return state
    task = tasks.get((record.submission.name, record.task))
    if task is not None and task.phase == PENDING:
        return replace(state, state=RunStatus.QUEUED)
    if task is not None and task.phase == OVER:
        return replace(state, state=RunStatus.INTERRUPTED if state.attempt else RunStatus.MISSING, reason=task.in_words)
    return state


def cancel_runs(home: Home, run_ids: Sequence[str]) -> list[str]:
    """Cancel these runs for good; return the ids of those that a scheduler holds.

    Each run is marked by a file `cancel` in its directory; runs that are done or have no directory are skipped. A task
    ends only if none of its runs is wanted any more; else the task or the run's trainer sees the run's mark. Raises
    SchedulerError if a scheduler cannot be asked; the marks stay.
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
        scheduler = str(record.facts.get("scheduler"))  # missing in a damaged record
        if scheduler in registry.names() and _is_unwanted(home, submission, task):
            unwanted.setdefault(scheduler, []).append((submission, task))
    for scheduler, theirs in unwanted.items():
        registry.find_dispatcher(scheduler).end_tasks(theirs)
    return held


def end_search(home: Home, name: str) -> bool:
    """Ask a search that a scheduler has to end, after its runs have saved; return False if none has it."""
    record = newest_records(home).get(search_id(name))
    if record is None or not record.is_open:
        return False
    (record.submission.root / STOP).touch()
    return True


def _is_unwanted(home: Home, submission: Submission, task: int) -> bool:
    """Return True if no run of a task is still to be executed by it."""
    for run_id in submission.runs_of(task):
        paths = home.run(run_id)
        record = open_record(paths)
        ours = record is not None and (record.submission, record.task) == (submission, task)
        if ours and not paths.cancel.exists() and not paths.result.exists():
            return False
    return True
