"""Find damaged or missing submission records of runs that a scheduler may still have.

A sweep executes a run whose record is lost, and reports the loss. If a task still executes the run, its lease prevents
a second execution.
"""

from __future__ import annotations

from collections.abc import Mapping

from plat.store.coordination.submissions import Submission, newest_file, newest_record, open_submissions
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths

Handed = Mapping[str, tuple[Submission, int]]


def handed_over(home: Home) -> Handed:
    """Return run id -> (Submission, number of the task in it) for all runs of open submissions."""
    return {
        str(run_id): (submission, task)
        for submission in open_submissions(home)
        for task, run_ids in enumerate(submission.tasks())
        for run_id in run_ids
    }


def lost_record(paths: RunPaths, handed: Handed) -> str:
    """Describe in one line why a run's newest submission record is damaged or lost; "" if nothing is wrong.

    A record is lost if an open submission has the run and the run's newest record does not name that submission. A run
    that no open submission has needs no record. `handed` is from `handed_over`.
    """
    file, record = newest_file(paths), newest_record(paths)
    if file is not None and record is not None and not record.facts:
        return f"{file} is damaged, so its submission counts as over"
    submission, task = handed.get(paths.id, (None, 0))
    if submission is None or submission.is_over(task):
        return ""
    if record is not None and (record.submission.name, record.task) == (submission.name, task):
        return ""
    wrong = f"no file in {paths.submissions} names it" if record is None else f"{file} does not name it"
    return f"the submission {submission.name} has the run, but {wrong}; the submission counts as over"
