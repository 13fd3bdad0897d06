"""SLURM's words for the state of a job, and what they mean for the runs in it.

A word that is not known here means unknown, never dead: sites and versions have words of their own.
"""

from __future__ import annotations

from plat.dispatch.schedulers import OVER, PENDING, RUNNING, UNKNOWN, TaskState

_PENDING = {"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
_RUNNING = {
    "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT",
    "POWER_UP_NODE", "UPDATE_DB",
}  # fmt: skip
# What the runs of a task that is over and that recorded nothing ended with; None: nothing is said about that.
_OVER = {
    "COMPLETED": None,
    "CANCELLED": "cancelled",
    "FAILED": "failed:node",
    "TIMEOUT": "failed:timeout",
    "DEADLINE": "failed:timeout",
    "PREEMPTED": "failed:preempted",
    "NODE_FAIL": "failed:node",
    "BOOT_FAIL": "failed:node",
    "LAUNCH_FAILED": "failed:node",
    "RECONFIG_FAIL": "failed:node",
    "OUT_OF_MEMORY": "failed:oom",
}


GONE = TaskState(OVER, "SLURM knows the job no more")


def task_state(text: str) -> TaskState:
    """From a state as squeue or sacct print it, for example "RUNNING", "CANCELLED by 1000" or "CANCELLED+"."""
    words = text.strip().rstrip("+").split()
    word = words[0].rstrip("+").upper() if words else ""
    if word in _PENDING:
        return TaskState(PENDING, _in_words(word))
    if word in _RUNNING:
        return TaskState(RUNNING, _in_words(word))
    if word in _OVER:
        return TaskState(OVER, _in_words(word), _OVER[word])
    return unknown(word)


def unknown(word: str) -> TaskState:
    """The state of a task of which SLURM says a word that is not understood."""
    return TaskState(UNKNOWN, _in_words(word))


def _in_words(word: str) -> str:
    return f"SLURM says {word}" if word else "SLURM knows the job no more"
