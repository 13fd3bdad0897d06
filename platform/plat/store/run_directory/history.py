"""Assemble the history of a run from its attempts. Only this module decides which events count.

A run that was killed and resumed has the history of an uninterrupted one. An event counts if a durable checkpoint of
its attempt covers its step, or if its attempt made result.json. A late event (`RunIO.log`) counts if it was logged
before the checkpoint. For each (key, step), and each (table, step), the first
event that counts wins. Damaged events are skipped; `plat.store.run_directory.damage` reports them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from plat.store.run_directory.checkpoint import newest_own, read_notes
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.run_files import read_result
from plat.store.run_directory.spool import Event, read_events


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

    events   number of events that count, the first ones in the attempt's file; None if unknown
    success  newest value of the headline metric in them, from the checkpoint; None if not recorded there
    """

    step: float
    events: int | None
    success: float | None = None

    def has(self, event: Event) -> bool:
        """Return True if the event is in this part."""
        is_after = event.late and self.events is not None and event.number > self.events
        return event.step <= self.step and not is_after


def run_history(paths: RunPaths, *, uncovered: bool = False) -> tuple[list[Metric], list[Table]]:
    """Return the metrics and tables that count, each in the order in which they were first logged.

    uncovered   see `covered_attempts`
    """
    return count_events((read_events(attempt.events)[0], part) for attempt, part in covered_attempts(paths, uncovered))


def count_events(spools: Iterable[tuple[Iterable[Event], Coverage]]) -> tuple[list[Metric], list[Table]]:
    """Return the metrics and tables that count, given (events, coverage) of each attempt, the oldest first.

    The first value of a (key, step) wins, also of a (table, step). Damaged events are skipped.
    """
    metrics: dict[tuple[str, int], Metric] = {}
    tables: dict[tuple[str, int], Table] = {}
    for events, coverage in spools:
        for event in events:
            if event.is_damaged or not coverage.has(event):
                continue
            if event.table is not None:
                tables.setdefault((event.table, event.step), Table(event.table, event.step, event.data, event.time))
                continue
            for key, value in event.metrics.items():
                metrics.setdefault((key, event.step), Metric(key, event.step, value, event.time))
    return list(metrics.values()), list(tables.values())


def covered_attempts(paths: RunPaths, uncovered: bool = False) -> list[tuple[AttemptPaths, Coverage]]:
    """Return (attempt, coverage) for each attempt with events that count, the oldest first.

    uncovered   if the run has no result, count all events of the newest attempt, not only those up to its newest
                checkpoint; the run may log the others again when it resumes
    """
    result, attempts = read_result(paths), paths.attempts()
    whole = attempts[-1:] if uncovered and result is None else []
    coverages = ((a, Coverage(math.inf, None) if a in whole else _coverage(a, result)) for a in attempts)
    return [(attempt, coverage) for attempt, coverage in coverages if coverage is not None]


def _coverage(attempt: AttemptPaths, result: dict[str, Any] | None) -> Coverage | None:
    """Return the part of an attempt that counts, or None. Its number of events is in result.json, or in the checkpoint
    of a run without a result."""
    recorded = recorded_events(result).get(attempt.number)
    if result is not None and result.get("attempt") == attempt.number:
        return Coverage(math.inf, recorded)
    newest = newest_own(attempt.checkpoints)
    if newest is None:
        return None
    step, path = newest
    notes = read_notes(path)
    return Coverage(step, notes.events if recorded is None else recorded, notes.success)


def recorded_events(result: dict[str, Any] | None) -> dict[int, int]:
    """Return attempt number -> number of its events that count, from the content of result.json; {} if not recorded."""
    return {int(attempt): count for attempt, count in ((result or {}).get("events") or {}).items()}
