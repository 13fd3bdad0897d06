"""Where a run stands, derived from the files in its directory alone. For a finished run that is one file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plat.outcomes import is_failure, is_result
from plat.store.run_directory import lease
from plat.store.run_directory.files import headline_of, load_meta, read_outcome, read_result, read_status, result_damage
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.spool_tail import read_newest
from plat.store.submissions import open_record
from plat.trainer.api import HEADLINE

IN_ARCHIVE = "in the archive"  # the reason of a run that is missing since `plat archive`
STATES = ("done", "running", "queued", "unknown", "failed", "interrupted", "missing")


@dataclass(frozen=True)
class RunState:
    """Where a run stands.

    state       one of STATES; a cancelled or pruned run is "interrupted" with outcome "cancelled" or
                "stopped:pruned"; a run that a scheduler has is "queued" until an attempt begins, and again while it
                waits for its next turn there
    outcome     how the run (done) or its last attempt ended, None while it runs or before it started
    step        newest step logged, None before the first; `success` is the newest value of its headline metric
    iterations  of the whole run, None when its config does not say
    attempt     number of the newest attempt, 0 before the first
    age         seconds since the last sign of life
    reason      why the last attempt ended, one line
    damage      what is wrong with result.json, "" when nothing is; the next attempt sets a damaged one aside
    starting    what a run that has no step yet says that it is doing ("" when it says nothing)
    """

    state: str
    outcome: str | None = None
    step: int | None = None
    success: float | None = None
    iterations: int | None = None
    attempt: int = 0
    age: float | None = None
    reason: str = ""
    damage: str = ""
    starting: str = ""


def run_state(paths: RunPaths) -> RunState:
    """Where the run stands, from its files alone."""
    result = read_result(paths)
    if result is None:
        return _state_of_unfinished(paths)
    return done_state(
        result["outcome"],
        result.get("step"),
        result.get("success"),
        result.get("iterations"),
        result.get("attempt", 0),
        result.get("time"),
        result.get("reason") or "",
    )


def done_state(
    outcome: str,
    step: int | None,
    success: float | None,
    iterations: int | None,
    attempt: int,
    ended: float | None,
    reason: str,
) -> RunState:
    """The state of a run with these facts in its result.json; `ended` in seconds since 1970."""
    return RunState("done", outcome, step, success, iterations, attempt, _age(ended), reason)


def _state_of_unfinished(paths: RunPaths) -> RunState:
    """The state of a run without a (whole) result.json."""
    meta = load_meta(paths)
    if meta is None:
        return RunState("missing")
    iterations, headline = meta.get("iterations"), headline_of(meta)
    attempts = paths.attempts()
    held = lease.state(paths)
    damage = result_damage(paths)
    if held == "live" or (held == "unknown" and not (attempts and attempts[-1].outcome.exists())):
        step, success, age = last_progress(attempts[-1].events, headline) if attempts else (None, None, None)
        number = attempts[-1].number if attempts else 0
        place = "" if held == "live" else lease.task_of(paths) or ""
        state = "running" if held == "live" or place else "unknown"
        starting = read_status(attempts[-1]) if attempts and step is None else ""
        return RunState(state, None, step, success, iterations, number, age, place, starting=starting)
    queued = _queued(paths, attempts, iterations, headline)
    if queued is not None:
        return queued
    if not attempts:
        return RunState("missing", iterations=iterations, damage=damage)
    number = attempts[-1].number
    ended = read_outcome(attempts[-1])
    if ended is None or is_result(str(ended.get("outcome", ""))):  # killed before it could say how it ended
        step, success, age = last_progress(attempts[-1].events, headline)
        reason = damage or "the process vanished"
        return RunState("interrupted", None, step, success, iterations, number, age, reason, damage)
    return RunState(
        "failed" if is_failure(str(ended.get("outcome", ""))) else "interrupted",
        ended.get("outcome"),
        ended.get("step"),
        ended.get("success"),
        iterations,
        number,
        _age(ended.get("time")),
        ended.get("reason") or "",
        damage,
    )


def _age(when: float | None) -> float:
    """Seconds since a moment; none where the clock was set back since."""
    return 0.0 if when is None else max(0.0, time.time() - when)


def _queued(
    paths: RunPaths, attempts: Sequence[AttemptPaths], iterations: int | None, headline: str
) -> RunState | None:
    """The state of a run that a scheduler has and that is not running; None when no scheduler has it, or when an
    attempt that it made there has failed."""
    record = open_record(paths)
    if record is None:
        return None
    if not attempts:
        return RunState("queued", iterations=iterations, reason=record.place)
    newest = attempts[-1]
    ended = read_outcome(newest) or {}
    outcome = str(ended.get("outcome", ""))
    if newest.number > record.attempts and outcome not in ("", "interrupted"):
        return None
    step, success, age = last_progress(newest.events, headline)
    return RunState("queued", None, step, success, iterations, newest.number, age, record.place)


def last_progress(events: Path, headline: str = HEADLINE) -> tuple[int | None, float | None, float | None]:
    """(newest step, newest value of the headline metric, seconds since the last event) of a spool."""
    newest = read_newest(events, headline)
    age = None
    with contextlib.suppress(OSError):
        age = max(0.0, time.time() - events.stat().st_mtime)
    return newest.step, newest.value, age
