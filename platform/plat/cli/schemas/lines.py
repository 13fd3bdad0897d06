"""The JSON of errors, and the lines that verbs print while they work."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class ErrorData(TypedDict):
    """What went wrong."""

    code: str
    """The kind of error; it does not change between versions."""
    what: str
    """What went wrong, in words."""
    where: str | None
    """A file with line and column, an option or a path."""
    fix: str | None
    """What mends it."""


class Failed(TypedDict):
    """The error that ended a verb: the same for every verb, in one line."""

    event: Literal["error"]
    error: ErrorData
    exit_code: int


class RunEvent(TypedDict):
    """A run or a preparation of runs that changed its state; a line of verbs that take long."""

    event: Literal["run"]
    kind: str
    """run or prepare."""
    id: str
    name: str
    state: str
    outcome: str | None
    reason: str
    seconds: float
    measured: str
    """The newest values, in words."""


class ProgressEvent(TypedDict):
    """The numbers of runs by state; a line of verbs that take long, at most every ten seconds."""

    event: Literal["progress"]
    runs: int
    done: int
    failed: int
    running: int
    waiting: int
    """Runs that another process executes."""
    queued: int
    preparing: int
    eta: float | None
    """Seconds until the end, if known."""


class MessageEvent(TypedDict):
    """A sentence; a line of verbs that take long."""

    event: Literal["message"]
    text: str
