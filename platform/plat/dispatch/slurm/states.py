"""SLURM's words for the state of a job, and what they mean for the runs in it.

A word that is not known here means unknown, never dead: sites and versions have words of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

PENDING, RUNNING, OVER, UNKNOWN = "pending", "running", "over", "unknown"

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


@dataclass(frozen=True)
class TaskState:
    """The state of one task (an array element).

    phase    PENDING, RUNNING, OVER or UNKNOWN
    word     SLURM's word; "" when SLURM does not know the task any more
    outcome  of a task that is over, for runs that recorded nothing themselves; None where SLURM's word does not say
    """

    phase: str
    word: str
    outcome: str | None = None

    @property
    def in_words(self) -> str:
        return f"SLURM says {self.word}" if self.word else "SLURM knows the job no more"


GONE = TaskState(OVER, "")


def task_state(text: str) -> TaskState:
    """From a state as squeue or sacct print it, for example "RUNNING", "CANCELLED by 1000" or "CANCELLED+"."""
    words = text.strip().rstrip("+").split()
    word = words[0].rstrip("+").upper() if words else ""
    if word in _PENDING:
        return TaskState(PENDING, word)
    if word in _RUNNING:
        return TaskState(RUNNING, word)
    if word in _OVER:
        return TaskState(OVER, word, _OVER[word])
    return TaskState(UNKNOWN, word)
