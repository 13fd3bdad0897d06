"""What has become of the submissions of a home: SLURM is asked once for all of them, and what is over is noted.

Promised: what SLURM does not say is not concluded. A task is over when SLURM says so, or when SLURM answers and knows
the job's number no more; a word, or a list of tasks, that is not understood changes nothing; and when SLURM cannot be
asked, nothing changes. SLURM has `accept_within` seconds, on the file server's clock, to list a job whose number it has
given; and as long, from when somebody first missed it, to list the job of a submitter that is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from plat.dispatch.api import SchedulerError
from plat.dispatch.slurm.commands import SOME, Slurm, Task
from plat.dispatch.slurm.states import GONE, OVER, TaskState
from plat.dispatch.slurm.submission import SCHEDULER
from plat.dispatch.submitting import age, give_up
from plat.store.durable import read_json
from plat.store.home import Home
from plat.store.submissions import Submission, open_submissions


@dataclass(frozen=True)
class Snapshot:
    """How the tasks of open submissions stand, by submission and task; a task that is not in it is not known."""

    tasks: Mapping[tuple[str, int], TaskState] = field(default_factory=dict)


def refresh(home: Home, slurm: Slurm, accept_within: float = 60.0) -> Snapshot:
    """Ask SLURM, once, about every submission that is not over; note numbers that were not known, and what is over.

    SchedulerError when SLURM cannot be asked.
    """
    submissions = open_submissions(home, SCHEDULER)
    known = {submission.name: submission.job_id() for submission in submissions}
    if not submissions:
        return Snapshot()
    listed: dict[str, list[Task]] = defaultdict(list)
    for task in slurm.tasks(list(known)):
        listed[task.name].append(task)
    states: dict[tuple[str, int], TaskState] = {}
    gone: list[tuple[Submission, int]] = []
    for submission in submissions:
        name = submission.name
        if known[name] is None and listed[name]:
            submission.note_job(listed[name][0].job_id, "squeue")
        elif known[name] is None:
            give_up(submission, "SLURM", accept_within)
            continue
        tasks = {task.index: task.state for task in listed[name]}
        states |= {(name, index): state for index, state in tasks.items()}
        if SOME in tasks or (not tasks and age(submission.job.stat().st_mtime, submission) < accept_within):
            continue
        gone += [(submission, index) for index in range(_count(submission)) if tasks.get(index, GONE).phase == OVER]
    _note_over(slurm, gone, states)
    return Snapshot(states)


def _note_over(slurm: Slurm, gone: Sequence[tuple[Submission, int]], states: dict[tuple[str, int], TaskState]) -> None:
    """Note the end of tasks; the accounting, where there is one, is asked about those that squeue lists no more."""
    fresh = [(submission, index) for submission, index in gone if not submission.is_over(index)]
    unlisted = sorted({submission.name for submission, index in fresh if (submission.name, index) not in states})
    ends = slurm.ended(unlisted) if unlisted else {}
    for submission, index in fresh:
        key = (submission.name, index)
        state = states.get(key) or ends.get(key, GONE)
        said = f"SLURM says {state.word}" if state.word else "SLURM knows the job no more"
        submission.note_over(state.outcome, said, index)
    for submission in {submission.name: submission for submission, _ in gone}.values():
        if all(submission.is_over(index) for index in range(_count(submission))):
            submission.note_over(None, "all of its tasks are over")


def _count(submission: Submission) -> int:
    return len((read_json(submission.manifest) or {"tasks": []})["tasks"])


def refresh_if_any(home: Home, accept_within: float = 60.0) -> Snapshot | None:
    """The same for whoever looks at a home: None, without asking, when there is nothing to ask or nobody to ask."""
    if not open_submissions(home, SCHEDULER):
        return None
    try:
        return refresh(home, Slurm(), accept_within)
    except (SchedulerError, OSError):
        return None
