"""What has become of the submissions of a home: SLURM is asked once for all of them, and what is over is noted.

Promised: nothing is concluded from what SLURM does not say. A task is over when SLURM says so, or when SLURM answers
and does not know the job's number any more, unless the job is another user's and the site hides those. A word, or a
list of tasks, that is not understood changes nothing; nor does a SLURM that cannot be asked. SLURM has the
`accept_within` seconds of the submission's profile, on the file server's clock, to list a job whose number it has
given; and as long, from when somebody first missed it, to list the job of a submitter that is gone.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from plat.dispatch.api import SchedulerError
from plat.dispatch.schedulers import OVER, TaskKey, TaskState
from plat.dispatch.slurm.commands import UNREADABLE, ListedTask, Slurm
from plat.dispatch.slurm.profile import Profile
from plat.dispatch.slurm.states import GONE
from plat.dispatch.slurm.submission import SCHEDULER
from plat.dispatch.submitting import age, give_up
from plat.store.home import Home
from plat.store.submissions import Submission, open_submissions, user_name

ACCEPT_WITHIN = Profile.accept_within  # of a submission that did not write down its profile's


@dataclass(frozen=True)
class Snapshot:
    """What SLURM says of the open submissions of a home.

    tasks    how the tasks stand that it knows, and those that it has known and that are over
    numbers  the numbers of jobs that nobody had written down, by submission
    missed   submissions that it does not list and whose number nobody knows
    broken   submissions that it lists no more and whose tasks nobody can read
    """

    tasks: Mapping[TaskKey, TaskState] = field(default_factory=dict)
    numbers: Mapping[Submission, str] = field(default_factory=dict)
    missed: Collection[Submission] = ()
    broken: Collection[Submission] = ()


def refresh(home: Home, slurm: Slurm) -> Snapshot:
    """Ask SLURM about every submission that is not over; note numbers that were not known, and what is over.

    SchedulerError when SLURM cannot be asked.
    """
    snapshot = ask(home, slurm, age)
    for submission, number in snapshot.numbers.items():
        submission.note_job(number, "squeue")
    for submission in snapshot.missed:
        give_up(submission, "SLURM", _accept_within(submission))
    for submission in snapshot.broken:
        submission.note_over(None, f"{submission.manifest} is damaged, and SLURM lists no job of it any more")
    for name in {name for name, _ in snapshot.tasks}:
        _note_ends(Submission(home.submissions / name), snapshot.tasks)
    return snapshot


def ask(home: Home, slurm: Slurm, seconds_since: Callable[[float, Submission], float]) -> Snapshot:
    """Ask SLURM, and write nothing. `seconds_since` gives the age of a file of a submission from its time of change."""
    known = {submission: submission.job_id() for submission in open_submissions(home, SCHEDULER)}
    if not known:
        return Snapshot()
    listed: dict[str, list[ListedTask]] = defaultdict(list)
    for task in slurm.tasks([submission.name for submission in known]):
        listed[task.name].append(task)
    tasks: dict[TaskKey, TaskState] = {}
    unlisted: list[TaskKey] = []
    broken: list[Submission] = []
    for submission, number in known.items():
        states = {task.index: task.state for task in listed[submission.name]}
        tasks |= {(submission.name, index): state for index, state in states.items()}
        is_readable = UNREADABLE not in states
        waits = number is None or seconds_since(_noted(submission), submission) < _accept_within(submission)
        is_new = not states and waits
        if is_readable and not is_new and _may_be_seen(submission, slurm):
            indices = range(len(submission.tasks()))
            unlisted += [(submission.name, i) for i in indices if i not in states]
            broken += [submission] if number is not None and not indices and not states else []
    without_number = [submission for submission, number in known.items() if number is None]
    return Snapshot(
        {**tasks, **_ends(home, slurm, unlisted)},
        {submission: listed[submission.name][0].job_id for submission in without_number if listed[submission.name]},
        [s for s in without_number if not listed[s.name] and _may_be_seen(s, slurm)],
        broken,
    )


def _may_be_seen(submission: Submission, slurm: Slurm) -> bool:
    """Whether the site would list the jobs of a submission to us."""
    by = submission.facts().get("by")
    owner = by.get("user") if isinstance(by, dict) else None
    return owner in (None, user_name()) or not slurm.site().hides_jobs


def _accept_within(submission: Submission) -> float:
    """Seconds that SLURM has to list a job: those of the profile under which it was submitted, whoever asks."""
    seconds = submission.facts().get("accept_within")
    return float(seconds) if isinstance(seconds, int | float) else ACCEPT_WITHIN


def _noted(submission: Submission) -> float:
    """When the job's number was written down."""
    return submission.job.stat().st_mtime


def _ends(home: Home, slurm: Slurm, unlisted: Sequence[TaskKey]) -> dict[TaskKey, TaskState]:
    """How tasks ended that squeue lists no more. The accounting, where there is one, is asked about those whose end
    nobody has noted."""
    fresh = [(name, index) for name, index in unlisted if not Submission(home.submissions / name).is_over(index)]
    ends = slurm.ended(sorted({name for name, _ in fresh})) if fresh else {}
    return {key: end if (end := ends.get(key, GONE)).phase == OVER else GONE for key in unlisted}


def _note_ends(submission: Submission, tasks: Mapping[TaskKey, TaskState]) -> None:
    """Note which tasks of a submission are over, and that all of them are."""
    count = len(submission.tasks())
    for index in range(count):
        state = tasks.get((submission.name, index))
        if state is not None and state.phase == OVER and not submission.is_over(index):
            submission.note_over(state.outcome, state.in_words, index)
    if count and all(submission.is_over(index) for index in range(count)):
        submission.note_over(None, "all of its tasks are over")


def task_states(home: Home, note: bool = True) -> Mapping[TaskKey, TaskState]:
    """For `plat.dispatch.registry`: what SLURM says of its tasks; with `note`, what is over is written into the home.

    Empty when no submission is open, or when SLURM does not answer. Without `note` nothing is written at all, so that
    the age of a job is judged by the clock of this machine.
    """
    if not open_submissions(home, SCHEDULER):
        return {}
    try:
        return (refresh(home, Slurm()) if note else ask(home, Slurm(), _seconds_since)).tasks
    except (SchedulerError, OSError):
        return {}


def _seconds_since(then: float, submission: Submission) -> float:
    """As `submitting.age`, which has to write a file to know the clock of the file server."""
    return max(0.0, time.time() - then)
