"""The JSON of verbs that show or change runs."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

Axes = dict[str, Any]


class RunState(TypedDict):
    """A run and its state."""

    id: str
    name: str
    axes: Axes
    state: str
    """done, running, queued, preparing, failed, interrupted, unknown or missing."""
    outcome: str | None
    step: int | None
    """The newest step."""
    success: float | None
    """The newest value of the headline metric, which is a share."""
    iterations: int | None
    """Steps of the whole run."""
    attempt: int
    age: float | None
    """Seconds since its last sign of life."""
    reason: str
    damage: str
    starting: str
    resumes: bool
    submission: str
    why: str | None
    """Why it has no result."""


class StatusData(TypedDict):
    """plat status"""

    home: str
    counts: dict[str, int]
    """State to number of runs."""
    runs: list[RunState]


class WaitData(TypedDict):
    """plat wait"""

    reached: bool
    until: str
    counts: dict[str, int]
    seconds: float


class WatchData(TypedDict):
    """The last line of plat watch."""

    counts: dict[str, int]


class RunRow(TypedDict):
    """A run with its facts; further keys are the columns that were asked for."""

    axes: Axes
    run: str
    id: str
    state: str
    outcome: str | None
    attempts: int
    iteration: int | None
    step: int | None
    iterations: int | None
    success: float | None
    best: float | None
    seconds: float | None
    age: float | None
    reason: str | None
    trainer: str | None
    files: str | None
    metrics: NotRequired[dict[str, Any]]
    """With --metrics: the curve of each as a list of [step, value]; with --last its newest value, or null."""


class RunsData(TypedDict):
    """plat runs"""

    home: str
    runs: list[RunRow]


class DiffData(TypedDict):
    """plat diff"""

    runs: list[RunRow]
    differences: dict[str, list[Any]]
    """Key of the config to its value in each run."""
    curves: dict[str, dict[str, list[tuple[int, float | None]]]]
    """Metric to run to its curve."""
    picture: str | None


class LogsData(TypedDict):
    """plat logs"""

    id: str
    attempt: int
    path: str
    text: str
    evaluations: list[dict[str, Any]]
    """Step, and metrics by name."""


class WhyData(TypedDict):
    """plat why"""

    id: str
    meta: dict[str, Any]
    state: dict[str, Any]
    damage: str
    fix: str
    attempts: list[dict[str, Any]]
    artifacts: dict[str, dict[str, Any]]
    nearest: str | None
    difference: dict[str, tuple[Any, Any]]
    """Key to its value here and in the nearest run."""


class RunData(TypedDict):
    """plat run"""

    id: str
    name: str
    folder: str
    result: dict[str, Any] | None


class EvalData(TypedDict):
    """plat eval"""

    run: str
    name: str
    checkpoint: str
    result: dict[str, Any]


class CancelData(TypedDict):
    """plat cancel"""

    asked: list[str]
    """Ids of active runs that were asked to stop."""
    not_to_start: list[str]
    searches: list[str]


class RmData(TypedDict):
    """plat rm"""

    removed: list[str]
