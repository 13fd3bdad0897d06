"""Update the submissions of a home: ask SLURM once for all of them, and note what is over.

A task is over when SLURM reports so, or when SLURM answers and no longer knows the job, unless the job is another
user's and the site hides those. An unknown word, an unreadable list or a missing answer changes nothing. A job may
be unlisted for `accept_within` seconds, which its submission states. They are measured on the file server's clock. They
begin when its number was noted; for a job without a number whose submitter is gone, when it was first missed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from plat.dispatch.dispatcher import SchedulerError
from plat.dispatch.setting import OVER, TaskKey, TaskState
from plat.dispatch.slurm.commands import GONE, UNREADABLE, ListedTask, Slurm
from plat.dispatch.slurm.profile import Profile
from plat.dispatch.slurm.submission import SCHEDULER, complete, pickle_of
from plat.dispatch.submitting import ANSWER, age, give_up
from plat.store.coordination.submissions import Submission, open_submissions, user_name
from plat.store.disk.durable import create, read_json, to_checked_json
from plat.store.home import Home
from plat.words.outcomes import CANCELLED, INTERRUPTED

WITHOUT_PICKLE = "it started in vain: its submitter was killed before it had written what the task executes"
ACCEPT_WITHIN = Profile.accept_within  # of a submission that did not record its own


@dataclass(frozen=True)
class Snapshot:
    """SLURM's answer about the open submissions of a home.

    tasks    states of the tasks that SLURM knows, and of those that it no longer knows
    numbers  by submission: job numbers that were not yet written down
    missed   submissions that SLURM does not list and whose number is unknown
    broken   submissions that SLURM no longer lists and whose submission.json cannot be read
    in_vain  number of tasks that were noted as over and had started without their pickle
    """

    tasks: Mapping[TaskKey, TaskState] = field(default_factory=dict)
    numbers: Mapping[Submission, str] = field(default_factory=dict)
    missed: Collection[Submission] = ()
    broken: Collection[Submission] = ()
    in_vain: int = 0


def refresh(home: Home, slurm: Slurm) -> Snapshot:
    """Ask SLURM; note new job numbers, and what is over. Raises SchedulerError if SLURM cannot be asked."""
    snapshot = ask(home, slurm, age)
    for submission, number in snapshot.numbers.items():
        submission.note_job(number, "squeue")
    for submission in snapshot.missed:
        give_up(submission, "SLURM", _accept_within(submission))
    for submission in snapshot.broken:
        submission.note_over(None, f"{submission.manifest} is damaged, and SLURM lists no job of it any more")
    names = {name for name, _ in snapshot.tasks}
    in_vain = sum(_note_ends(Submission(home.submissions / name), snapshot.tasks) for name in names)
    for name in names:
        _complete(Submission(home.submissions / name))
    return replace(snapshot, in_vain=in_vain)


def ask(home: Home, slurm: Slurm, seconds_since: Callable[[float, Submission], float]) -> Snapshot:
    """Return SLURM's answer, and write nothing. Raises SchedulerError if SLURM cannot be asked.

    seconds_since  gets the mtime of a file of a submission, and the submission; returns the file's age in seconds
    """
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
        waits = number is None or seconds_since(submission.job.stat().st_mtime, submission) < _accept_within(submission)
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


def _complete(submission: Submission) -> None:
    """Write the pickles that a killed submitter has not moved into place (see `submission.complete`), once."""
    noted = read_json(submission.job)
    marker = submission.root / "completed.json"
    if noted is not None and noted.get("learnt") != ANSWER and not marker.exists():
        create(marker, to_checked_json({"missing": complete(submission)}), sync=False)


def _may_be_seen(submission: Submission, slurm: Slurm) -> bool:
    """Return True if the submission is on this cluster (several may share a home), which lists its jobs to us."""
    facts = submission.facts()
    if facts.get("cluster") not in (None, slurm.site().cluster):
        return False
    by = facts.get("by")
    owner = by.get("user") if isinstance(by, dict) else None
    return owner in (None, user_name()) or not slurm.site().hides_jobs


def _accept_within(submission: Submission) -> float:
    """Return the seconds that SLURM has to list a job, from the profile with which it was submitted."""
    seconds = submission.facts().get("accept_within")
    return float(seconds) if isinstance(seconds, int | float) else ACCEPT_WITHIN


def command_timeout(submissions: Iterable[Submission]) -> float:
    """Return the seconds that a command may take: the maximum over the profiles of these submissions."""
    stated = [submission.facts().get("command_timeout") for submission in submissions]
    return max([float(s) for s in stated if isinstance(s, int | float)], default=Profile.command_timeout)


def _ends(home: Home, slurm: Slurm, unlisted: Sequence[TaskKey]) -> dict[TaskKey, TaskState]:
    """Return the ends of tasks that squeue no longer lists.

    The accounting is asked about ends that are not noted yet; without an answer the end is GONE.
    """
    fresh = [(name, index) for name, index in unlisted if not Submission(home.submissions / name).is_over(index)]
    ends = slurm.ended(sorted({name for name, _ in fresh})) if fresh else {}
    return {key: end if (end := ends.get(key, GONE)).phase == OVER else GONE for key in unlisted}


def _note_ends(submission: Submission, tasks: Mapping[TaskKey, TaskState]) -> int:
    """Note which tasks of a submission are over, and the submission if all of them are.

    Returns how many of them had started without their pickle.
    """
    count, in_vain = len(submission.tasks()), 0
    for index in range(count):
        state = tasks.get((submission.name, index))
        if state is None or state.phase != OVER or submission.is_over(index):
            continue
        path = pickle_of(submission, index)
        if path is None or path.exists() or state.outcome == CANCELLED:
            submission.note_over(state.outcome, state.in_words, index)
        else:
            submission.note_over(INTERRUPTED, WITHOUT_PICKLE, index)
            in_vain += 1
    if count and all(submission.is_over(index) for index in range(count)):
        submission.note_over(None, "all of its tasks are over")
    return in_vain


def task_states(home: Home, note: bool = True) -> Mapping[TaskKey, TaskState]:
    """Return SLURM's states of its tasks; with `note`, record in the home what is over.

    Empty if no submission is open, or SLURM does not answer. Without `note` nothing is written, so the clock of this
    machine decides the age of a job.
    """
    submissions = open_submissions(home, SCHEDULER)
    if not submissions:
        return {}
    slurm = Slurm(command_timeout(submissions))
    try:
        if note:
            return refresh(home, slurm).tasks
        return ask(home, slurm, lambda then, submission: max(0.0, time.time() - then)).tasks
    except (SchedulerError, OSError):
        return {}
