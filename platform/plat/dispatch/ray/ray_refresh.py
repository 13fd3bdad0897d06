"""Update the submissions that Ray has, from the names of its actors.

A missing answer changes nothing. A task is over when its actor has noted so, when its cluster answers and no longer
lists the actor, or when the cluster is certainly gone: its port refuses, another cluster answers at its address, or the
owner of a private Ray has ended.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable, Collection, Mapping
from typing import Any

from plat.dispatch.dispatcher_spec import TaskKey, TaskState
from plat.dispatch.ray.bridge_client import Cluster
from plat.dispatch.submitting import give_up, submitter_may_live
from plat.processes import identification
from plat.store.coordination.submissions import Submission, open_submissions
from plat.store.disk.durable import read_json
from plat.store.home import Home
from plat.words.outcomes import failed

SCHEDULER = "ray"
ACCEPT_WITHIN = 5.0  # seconds; a cluster lists an actor before the call that starts it returns
GONE = "the Ray cluster is gone"


def actor_name(submission: Submission, task: int) -> str:
    return f"{submission.name}_{task}"


def refresh(home: Home, cluster: Cluster, ask: Callable[[], Collection[str]], steal: bool = False) -> list[str]:
    """Note what is over; return the names of actors that are no longer needed.

    ask    returns the names of the cluster's actors. It is called after this function has read which submissions are
           complete, so that an actor that starts meanwhile does not count as lost
    steal  submissions to other clusters count as over, too
    """
    unneeded, is_lost = [], _lost_clusters()
    submissions = open_submissions(home, SCHEDULER)
    whole = {submission.name for submission in submissions if submission.job_id() is not None}
    names = ask()
    for submission in submissions:
        facts = read_json(submission.manifest)
        if facts is None:
            give_up(submission, "Ray", ACCEPT_WITHIN)
        elif facts["session"] != cluster.session:
            if steal or facts["address"] == cluster.address or is_lost(facts):
                _note_all_over(submission, facts, GONE)
        else:
            unneeded += _refresh(submission, facts, names, submission.name in whole)
    return unneeded


def task_states(home: Home, note: bool = True) -> Mapping[TaskKey, TaskState]:
    """Return {}: a query to Ray takes seconds, and its actors keep the files of runs up to date.

    With `note`, submissions to clusters that are certainly gone are noted as over, without asking Ray.
    """
    is_lost = _lost_clusters()
    for submission in open_submissions(home, SCHEDULER) if note else ():
        facts = read_json(submission.manifest)
        if facts is None:
            give_up(submission, "Ray", ACCEPT_WITHIN)
        elif is_lost(facts):
            _note_all_over(submission, facts, GONE)
        elif all(submission.is_over(task) for task in range(len(facts["tasks"]))):
            submission.note_over(None, "all of its tasks are over")
    return {}


def _refresh(submission: Submission, facts: dict[str, Any], names: Collection[str], is_whole: bool) -> list[str]:
    tasks = range(len(facts["tasks"]))
    listed = [task for task in tasks if actor_name(submission, task) in names]
    if not is_whole:
        if not listed or submitter_may_live(submission):
            give_up(submission, "Ray", ACCEPT_WITHIN)
        else:  # its submitter was killed while it started actors; the next refresh notes the missing ones
            submission.note_job(submission.name, "the list of actors")
        return []
    for task in tasks:
        if task not in listed:
            submission.note_over(failed("node"), "Ray lost its actor", task)
    if not listed:
        submission.note_over(None, "all of its tasks are over")
    return [actor_name(submission, task) for task in listed if submission.is_over(task)]


def _note_all_over(submission: Submission, facts: dict[str, Any], reason: str) -> None:
    for task in range(len(facts["tasks"])):
        submission.note_over(failed("node"), reason, task)
    submission.note_over(failed("node"), reason)


def _lost_clusters() -> Callable[[dict[str, Any]], bool]:
    """Return a function: True if the cluster of a submission is certainly gone. It tries each address once."""
    refuses = functools.cache(_refuses)

    def is_lost(facts: dict[str, Any]) -> bool:
        return not identification.may_run(facts["owner"]) if facts["local"] else refuses(str(facts["address"]))

    return is_lost


def _refuses(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2.0):
            return False
    except ConnectionRefusedError:
        return True
    except OSError:  # the network, or a firewall
        return False
