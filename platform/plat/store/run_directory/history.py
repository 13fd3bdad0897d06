"""The history of a run, put together from its attempts: the one place that says which events count.

Promised: whatever was killed and resumed in between, the history is the one an undisturbed run would have, because an
event counts only when its step is covered by a durable checkpoint of its attempt, or by result.json when this attempt
made it; and of each (key, step), and each (table name, step), the first one wins. Events not covered yet may be
repeated by a later attempt and are left out until then. `plat.store.run_directory.damage` says what is missing because
a file was damaged, so that nobody takes the rest for the whole.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from plat.store.run_directory.checkpoint import newest_own, read_notes
from plat.store.run_directory.files import read_outcome, read_result
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.spool import read_events


class Metric(NamedTuple):
    """One value of one metric. `time` is seconds since 1970."""

    key: str
    step: int
    value: float
    time: float


class Table(NamedTuple):
    """One table at one step."""

    name: str
    step: int
    data: Any
    time: float


class Coverage(NamedTuple):
    """The part of an attempt that counts: all events of steps <= `step`.

    `events` is how many events the attempt must have at least (they come first in its file), None when unknown.
    `success` is the newest value of the headline metric in them, None when unknown, or when they may not have one.
    """

    step: float
    events: int | None
    success: float | None = None


def run_history(paths: RunPaths) -> tuple[list[Metric], list[Table]]:
    """Metrics and tables that count, each in the order in which they were first logged."""
    metrics: dict[tuple[str, int], Metric] = {}
    tables: dict[tuple[str, int], Table] = {}
    for attempt, coverage in covered_attempts(paths):
        for event in read_events(attempt.events)[0]:
            if event.is_damaged or event.step > coverage.step:
                continue
            if event.table is not None:
                tables.setdefault((event.table, event.step), Table(event.table, event.step, event.data, event.time))
                continue
            for key, value in event.metrics.items():
                metrics.setdefault((key, event.step), Metric(key, event.step, value, event.time))
    return list(metrics.values()), list(tables.values())


def covered_attempts(paths: RunPaths) -> list[tuple[AttemptPaths, Coverage]]:
    """The attempts of which something counts, oldest first."""
    result = read_result(paths)
    coverages = ((attempt, _coverage(attempt, result)) for attempt in paths.attempts())
    return [(attempt, coverage) for attempt, coverage in coverages if coverage is not None]


def _coverage(attempt: AttemptPaths, result: dict[str, Any] | None) -> Coverage | None:
    """What counts of an attempt. How many events that must be, result.json says; of older runs, outcome.json or the
    checkpoint."""
    recorded = recorded_events(result).get(attempt.number)
    if result is not None and result.get("attempt") == attempt.number:
        return Coverage(math.inf, (read_outcome(attempt) or {}).get("events") if recorded is None else recorded)
    newest = newest_own(attempt.checkpoints)
    if newest is None:
        return None
    step, path = newest
    notes = read_notes(path)
    return Coverage(step, notes.events if recorded is None else recorded, notes.success)


def recorded_events(result: dict[str, Any] | None) -> dict[int, int]:
    """Number of an attempt -> how many events of it count, as result.json says; empty where it does not."""
    return {int(attempt): count for attempt, count in ((result or {}).get("events") or {}).items()}
