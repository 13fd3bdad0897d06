"""Update the submissions that Ray has, from the jobs of its cluster.

A missing answer changes nothing. A task is over when its trial has noted so, or when its cluster is certainly gone: its
port refuses, another cluster answers at its address, or the process of a private Ray has ended. A driver that ended
before its tasks is replaced.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable, Mapping
from typing import Any

from plat.dispatch.dispatcher import SchedulerError
from plat.dispatch.ray.jobs import NOWHERE, Attempt, Cluster, JobsClient, job_id, tune_folder
from plat.dispatch.setting import TaskKey, TaskState
from plat.dispatch.submitting import give_up, submitter_may_live
from plat.processes import identification
from plat.store.coordination.submissions import Submission, open_submissions
from plat.store.home import Home
from plat.words.outcomes import failed

SCHEDULER = "ray"
ACCEPT_WITHIN = 5.0  # seconds
GONE = "the Ray cluster is gone"
DRIVERS = 5  # attempts of a submission's driver


def refresh(home: Home, cluster: Cluster, jobs: JobsClient | None, steal: bool = False) -> None:
    """Note what is over, and replace drivers that ended before their tasks.

    jobs   the Jobs API of the cluster; None: no cluster is asked, and none of a private Ray has one
    steal  submissions to other clusters count as over, too

    Raises SchedulerError if a driver cannot be started; its submission is then over, and its runs are free again.
    """
    is_lost = _lost_clusters()
    attempts = jobs.attempts() if jobs else {}
    for submission in open_submissions(home, SCHEDULER):
        facts = submission.facts()
        if not facts:
            give_up(submission, "Ray", ACCEPT_WITHIN)
        elif _note_end(submission, facts):
            continue
        elif jobs is None or facts["session"] != cluster.session:
            is_other = facts["session"] != cluster.session
            if is_lost(facts) or (is_other and (steal or (facts["address"] == cluster.address and _same_here(facts)))):
                _note_all_over(submission, facts, GONE)
        elif "search" in facts:  # its trials belong to the driver of the search
            if Submission(home.submissions / facts["search"]).is_over():
                _note_all_over(submission, facts, "its search has ended")
        elif submission.job_id() is not None or not submitter_may_live(submission):
            submission.note_job(_job(submission, jobs, attempts.get(submission.name)), "the list of jobs")


def task_states(home: Home, note: bool = True) -> Mapping[TaskKey, TaskState]:
    """Return {}: a query to Ray takes seconds, and its trials keep the files of runs up to date.

    With `note`, submissions to clusters that are certainly gone are noted as over, without asking Ray.
    """
    if note:
        refresh(home, NOWHERE, None)
    return {}


def _job(submission: Submission, jobs: JobsClient, newest: Attempt | None) -> str:
    """Return the id of the job of a submission's driver. It is started if there is none, or if it has ended."""
    if newest is None:  # its submitter was killed; or the job was started after the list was made, and is found
        return jobs.submit(submission, 1)
    if not newest.has_ended:
        return job_id(submission, newest.number)
    if not tune_folder(submission, newest.number).exists():
        submission.note_over(None, f"its driver did not start: {newest.message}")
        raise SchedulerError(
            f"the driver of Ray Tune did not start on the cluster: {newest.message}",
            certain=True,
            where=f"`ray job logs {job_id(submission, newest.number)}`",
            fix="its nodes need this Python environment at the same path, and access to the home",
        )
    if newest.number >= DRIVERS:
        reason = f"the driver of Ray Tune ended {DRIVERS} times before its trials: {newest.message}"
        _note_all_over(submission, submission.facts(), reason)
        return job_id(submission, newest.number)
    return jobs.submit(submission, newest.number + 1)


def _note_end(submission: Submission, facts: Mapping[str, Any]) -> bool:
    """Return True if all tasks of a submission are over, and note it."""
    if not all(submission.is_over(task) for task in range(len(facts["tasks"]))):
        return False
    submission.note_over(None, "all of its tasks are over")
    return True


def _note_all_over(submission: Submission, facts: Mapping[str, Any], reason: str) -> None:
    for task in range(len(facts["tasks"])):
        submission.note_over(failed("node"), reason, task)
    submission.note_over(failed("node"), reason)


def _lost_clusters() -> Callable[[Mapping[str, Any]], bool]:
    """Return a function: True if the cluster of a submission is certainly gone. It tries each address once."""
    refuses = functools.cache(_refuses)

    def is_lost(facts: Mapping[str, Any]) -> bool:
        if facts["local"]:
            return not identification.may_run(facts["owner"])
        return _same_here(facts) and refuses(str(facts["address"]))

    return is_lost


def _same_here(facts: Mapping[str, Any]) -> bool:
    """Return True if the address of a submission's cluster is of the same machine here as where it was submitted."""
    host = str(facts["address"]).rpartition(":")[0]
    return identification.is_of_this_boot(facts["by"]) or not (host == "localhost" or host.startswith(("127.", "[::1")))


def _refuses(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2.0):
            return False
    except ConnectionRefusedError:
        return True
    except (OSError, UnicodeError):  # the network, a firewall, or no name of a host
        return False
