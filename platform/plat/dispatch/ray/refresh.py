"""What has become of the submissions that Ray has: noted from the names of its actors, which are asked for at once.

Promised: what Ray does not say is not concluded. A task is over when its actor has noted so itself, when the cluster
that answers lists the actor no more, or when the cluster is certainly gone: its port refuses, another cluster answers
at its address, or the process with which a Ray of our own ends has ended.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Mapping
from typing import Any

from plat.dispatch.ray.client import Cluster
from plat.dispatch.schedulers import TaskKey, TaskState
from plat.dispatch.submitting import give_up, submitter_may_live
from plat.store import process
from plat.store.durable import read_json
from plat.store.home import Home
from plat.store.submissions import Submission, open_submissions

SCHEDULER = "ray"
ACCEPT_WITHIN = 5.0  # seconds; a cluster lists an actor before the call that starts it returns
GONE = "the Ray cluster is gone"


def actor_name(submission: Submission, task: int) -> str:
    return f"{submission.name}_{task}"


def refresh(home: Home, cluster: Cluster, ask: Callable[[], Collection[str]], steal: bool = False) -> list[str]:
    """Note what is over, given the names of the actors of a cluster; the actors that nobody needs any more.

    ask    gives the names; whether a submission was whole is read before, so that an actor that was started while the
           names were on their way is not taken for lost
    steal  what other clusters have counts as over, too
    """
    unneeded, lost = [], _Lost()
    submissions = open_submissions(home, SCHEDULER)
    whole = {submission.name for submission in submissions if submission.job_id() is not None}
    names = ask()
    for submission in submissions:
        facts = read_json(submission.manifest)
        if facts is None:
            give_up(submission, "Ray", ACCEPT_WITHIN)
        elif facts["session"] != cluster.session:
            if steal or facts["address"] == cluster.address or lost.has(facts):
                _note_all_over(submission, facts, GONE)
        else:
            unneeded += _refresh(submission, facts, names, submission.name in whole)
    return unneeded


def task_states(home: Home, note: bool = True) -> Mapping[TaskKey, TaskState]:
    """For `plat.dispatch.registry`. Empty: asking Ray takes seconds, and its actors keep the files of runs up to date.

    With `note`, what was handed to clusters that are certainly gone is noted as over.
    """
    if note:
        note_lost_clusters(home)
    return {}


def note_lost_clusters(home: Home) -> None:
    """As `refresh`, without asking Ray: note what was handed to clusters that are certainly gone."""
    lost = _Lost()
    for submission in open_submissions(home, SCHEDULER):
        facts = read_json(submission.manifest)
        if facts is None:
            give_up(submission, "Ray", ACCEPT_WITHIN)
        elif lost.has(facts):
            _note_all_over(submission, facts, GONE)
        elif all(submission.is_over(task) for task in range(len(facts["tasks"]))):
            submission.note_over(None, "all of its tasks are over")


def _refresh(submission: Submission, facts: dict[str, Any], names: Collection[str], is_whole: bool) -> list[str]:
    tasks = range(len(facts["tasks"]))
    listed = [task for task in tasks if actor_name(submission, task) in names]
    if not is_whole:
        if not listed or submitter_may_live(submission):
            give_up(submission, "Ray", ACCEPT_WITHIN)
        else:  # its submitter was killed while it started actors; those that are missing are noted next time
            submission.note_job(submission.name, "the list of actors")
        return []
    for task in tasks:
        if task not in listed:
            submission.note_over("failed:node", "Ray lost its actor", task)
    if not listed:
        submission.note_over(None, "all of its tasks are over")
    return [actor_name(submission, task) for task in listed if submission.is_over(task)]


def _note_all_over(submission: Submission, facts: dict[str, Any], reason: str) -> None:
    for task in range(len(facts["tasks"])):
        submission.note_over("failed:node", reason, task)
    submission.note_over("failed:node", reason)


class _Lost:
    """Which clusters are certainly gone, as far as that can be told without Ray; each is tried once."""

    def __init__(self) -> None:
        self._refuses: dict[str, bool] = {}

    def has(self, facts: dict[str, Any]) -> bool:
        """Whether the cluster of a submission is gone."""
        if facts["local"]:
            return not process.may_run(facts["owner"])
        address = str(facts["address"])
        if address not in self._refuses:
            self._refuses[address] = _refuses(address)
        return self._refuses[address]


def _refuses(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2.0):
            return False
    except ConnectionRefusedError:
        return True
    except OSError:  # the network, or a firewall
        return False
