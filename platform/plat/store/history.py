"""The history of a run, put together from its attempts: the one place that says which events count.

Promised: whatever was killed and resumed in between, the history is the one an undisturbed run would have, because an
event counts only when its step is covered by a durable checkpoint of its attempt, or by result.json when this attempt
made it; and of each (key, step), and each (table name, step), the first one wins. Events not covered yet may be
repeated by a later attempt and are left out until then. What is missing from it because a file was damaged is said
by `damage`, so that nobody takes the rest for the whole.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

from plat.store.checkpoint import durable_step
from plat.store.durable import read_json
from plat.store.home import AttemptPaths, RunPaths
from plat.store.run_directory import headline_of, read_result
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
        covered = _covered(attempt, result)
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


def _covered(attempt: AttemptPaths, result: dict[str, Any] | None) -> float | None:
    """The last step of this attempt that counts, None when none does."""
    if result is not None and result.get("attempt") == attempt.number:
        return math.inf
    return durable_step(attempt.checkpoints)


def corrupt_events(paths: RunPaths) -> list[tuple[Path, int, Event]]:
    """(file, number of the event from 1, event) of every damaged line that may have counted.

    Steps only rise, so a damaged line behind a step that does not count would not have counted either.
    """
    result = read_result(paths)
    found = []
    for attempt in paths.attempts():
        covered = _covered(attempt, result)
        if covered is None:
            continue
        for number, event in enumerate(read_events(attempt.events)[0], start=1):
            if event.step > covered:
                break
            if event.kind == "corrupt":
                found.append((attempt.events, number, event))
    return found


def damage(paths: RunPaths, metrics: list[Metric], tables: list[Table]) -> str:
    """What is wrong with this history (as `run_history` gave it), in one line; "" when nothing is.

    Damaged lines of any run; of a run that is done also whether the history reaches the step, and holds the successes,
    that result.json tells of, and whether the attempts it was resumed from are still there.
    """
    for file, number, _ in corrupt_events(paths):
        return f"{file.relative_to(paths.root)} line {number} is damaged"
    result = read_result(paths)
    if result is None:
        return ""
    steps = [row.step for row in metrics] + [row.step for row in tables]
    last = result.get("step")
    if isinstance(last, int) and max(steps, default=-1) < last:
        return f"the events end at step {max(steps)} of {last}" if steps else "there are no events"
    for attempt in paths.attempts():
        if attempt.number == result.get("attempt") and _is_cut(attempt.events):
            return f"the last line of {attempt.events.relative_to(paths.root)} is cut"
    before = 0
    for step in sorted({step for attempt in paths.attempts() if (step := _restored(attempt)) is not None and step > 0}):
        if not any(before <= found <= step for found in steps):
            return f"the events (or the checkpoints) of the attempt that reached step {step} are gone"
        before = step + 1
    headline = headline_of(read_json(paths.meta))
    logged = {row.value for row in metrics if row.key == headline}
    summary = result.get("summary") or {}
    for name, told in (("success", result.get("success")), ("peak success", summary.get("peak_success"))):
        if isinstance(told, int | float) and told >= 0 and told not in logged:
            return f"the {name} {told} of result.json is not in the events"
    return ""


def _restored(attempt: AttemptPaths) -> int | None:
    step = (read_json(attempt.meta) or {}).get("restored_step")
    return step if isinstance(step, int) else None


def _is_cut(events: Path) -> bool:
    """Whether a spool that was closed properly ends within a line."""
    try:
        return events.stat().st_size > read_events(events)[1]
    except OSError:
        return False
