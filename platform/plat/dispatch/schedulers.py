"""What schedulers say of the runs that were handed to them, for verbs that show how runs stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from plat.dispatch import registry
from plat.store.home import Home
from plat.store.run_directory.state import RunState
from plat.store.submissions import newest_record

PENDING, RUNNING, OVER, UNKNOWN = "pending", "running", "over", "unknown"
TaskKey = tuple[str, int]  # name of a submission, index of a task in it


@dataclass(frozen=True)
class TaskState:
    """How a scheduler says that one of its tasks stands.

    phase     PENDING, RUNNING, OVER or UNKNOWN
    in_words  the same as the scheduler puts it, for people: "SLURM says PENDING"
    outcome   of a task that is over, for runs that recorded nothing themselves; None where the scheduler does not say
    """

    phase: str
    in_words: str
    outcome: str | None = None


def ask_schedulers(home: Home, *, note: bool = True) -> Mapping[TaskKey, TaskState]:
    """How the tasks stand that schedulers have of this home; with `note`, what is over is written into the home.

    Empty when nothing was handed to a scheduler. A scheduler that does not answer says nothing.
    """
    tasks: dict[TaskKey, TaskState] = {}
    if home.submissions.is_dir():
        for name in registry.SCHEDULERS:
            tasks |= registry.task_states(name, home, note)
    return tasks


def corrected(home: Home, run_id: str, state: RunState, tasks: Mapping[TaskKey, TaskState]) -> RunState:
    """The state of a run that a scheduler has, where the scheduler knows more than the run's own files.

    A lease written on another machine cannot be checked from here, so a run seems to go on there while its job waits
    for its next turn, or is over.
    """
    if not tasks or state.state not in ("running", "queued"):
        return state
    record = newest_record(home.run(run_id))
    if record is None or state.reason != record.place:  # it runs here
        return state
    task = tasks.get((record.submission.name, record.task))
    if task is not None and task.phase == PENDING:
        return replace(state, state="queued")
    if task is not None and task.phase == OVER:
        return replace(state, state="interrupted" if state.attempt else "missing", reason=task.in_words)
    return state
