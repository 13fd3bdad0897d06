"""The history of a run, put together from its attempts: the one place that says which events count (DESIGN 3.4).

Promised: whatever was killed and resumed in between, the history is the one an undisturbed run would have, because an
event counts only when its step is covered by a durable checkpoint of its attempt, or by result.json when this attempt
made it; and of each (key, step), and each (table name, step), the first one wins. Events not covered yet may be
repeated by a later attempt and are left out until then.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from plat.store.checkpoint import durable_step
from plat.store.home import RunPaths
from plat.store.run_directory import read_result
from plat.store.spool import Event, read_events


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


def run_history(paths: RunPaths) -> tuple[list[Metric], list[Table]]:
    """Metrics and tables that count, each in the order in which they were first logged."""
    metrics: dict[tuple[str, int], Metric] = {}
    tables: dict[tuple[str, int], Table] = {}
    result = read_result(paths)
    for attempt in paths.attempts():
        covered: float | None = durable_step(attempt.checkpoints)
        if result is not None and result.get("attempt") == attempt.number:
            covered = math.inf
        if covered is None:
            continue
        for event in read_events(attempt.events)[0]:
            if event.kind == "corrupt" or event.step > covered:
                continue
            if event.table is not None:
                tables.setdefault((event.table, event.step), Table(event.table, event.step, event.data, event.time))
                continue
            for key, value in event.metrics.items():
                metrics.setdefault((key, event.step), Metric(key, event.step, value, event.time))
    return list(metrics.values()), list(tables.values())


def corrupt_events(paths: RunPaths) -> list[Event]:
    """Damaged lines of every attempt, to be reported."""
    return [event for a in paths.attempts() for event in read_events(a.events)[0] if event.kind == "corrupt"]
