"""The states of runs, leases, jobs and a scheduler's tasks. Their values are the texts in files and on the screen."""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """State of a run, in the order in which states are counted. Only the command line shows PREPARING."""

    DONE = "done"
    RUNNING = "running"
    QUEUED = "queued"
    UNKNOWN = "unknown"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    PREPARING = "preparing"
    MISSING = "missing"


class LeaseState(StrEnum):
    """State of a run's lease: no holder, a live one, a dead one, or one that cannot be checked from here."""

    FREE = "free"
    LIVE = "live"
    ORPHAN = "orphan"
    UNKNOWN = "unknown"


HELD = (LeaseState.LIVE, LeaseState.UNKNOWN)  # the run has a process, or may have one


class JobState(StrEnum):
    """State of a job of a sweep: to start, running here, in the hands of another process, or over."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    ENDED = "ended"


class Phase(StrEnum):
    """State of a task as a scheduler reports it."""

    PENDING = "pending"
    RUNNING = "running"
    OVER = "over"
    UNKNOWN = "unknown"
