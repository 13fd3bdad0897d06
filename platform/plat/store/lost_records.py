"""Records of submissions that are damaged or gone, of runs that a scheduler may still have.

A run without a readable record counts as in nobody's hands, and a sweep does it. That is safe, because the lease is
taken by one process only, but it may be a surprise. So the sweep says it.
"""

from __future__ import annotations

from collections.abc import Mapping

from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths
from plat.store.submissions import Submission, newest_file, newest_record, open_submissions

Handed = Mapping[str, tuple[Submission, int]]


def handed_over(home: Home) -> Handed:
    """Run id -> the submission and the task that have it, of all submissions that are not over."""
    return {
        str(run_id): (submission, task)
        for submission in open_submissions(home)
        for task, run_ids in enumerate(submission.tasks())
        for run_id in run_ids
    }


def lost_record(paths: RunPaths, handed: Handed) -> str:
    """What is wrong with the newest record of a run that no scheduler is known to have, in one line; "" when nothing
    is."""
    file, record = newest_file(paths), newest_record(paths)
    if file is not None and record is not None and not record.facts:
        return f"{file} is damaged, so its submission counts as over"
    submission, task = handed.get(paths.id, (None, 0))
    if submission is None or submission.is_over(task):
        return ""
    if record is not None and (record.submission.name, record.task) == (submission.name, task):
        return ""
    wrong = f"no file in {paths.submissions} names" if record is None else f"{file} does not name"
    return f"{wrong} the submission {submission.name}, which has the run; it counts as over"
