"""Derive the state of a run from the files in its directory. For a done run this reads one file, result.json."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.store.coordination.submissions import newest_record, open_record
from plat.store.run_directory import lease, run_files
from plat.store.run_directory.history import run_history
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.spool import read_newest
from plat.trainer.api import HEADLINE
from plat.words.outcomes import INTERRUPTED, is_failure, is_result
from plat.words.states import LeaseState, RunStatus

STATES = tuple(status for status in RunStatus if status != RunStatus.PREPARING)


@dataclass(frozen=True)
class RunState:
    """The state of a run.

    A cancelled or pruned run is "interrupted" with outcome "cancelled" or "stopped:pruned". A run with an open
    submission is "queued" while no attempt runs.
    """

    state: RunStatus  # one of STATES
    outcome: str | None = None  # of the run (done) or of its last attempt; None while it runs or before it started
    step: int | None = None  # newest logged step, None before the first
    success: float | None = None  # newest value of the headline metric
    iterations: int | None = None  # of the whole run, None if not recorded
    attempt: int = 0  # number of the newest attempt, 0 before the first
    age: float | None = None  # seconds since the last event, or since the last attempt ended
    reason: str = ""  # why the last attempt ended, the place at the scheduler, or why a job could not begin; one line
    damage: str = ""  # of result.json in one line, "" if there is none; the next attempt sets a damaged file aside
    starting: str = ""  # current activity of a running run before its first step, "" if not recorded
    resumes: bool = True  # False: it has no checkpoint
    submission: str = ""  # name of the submission whose task has the run, "" if there is none or the process runs here


def run_state(paths: RunPaths) -> RunState:
    """Return the state of a run."""
    result = run_files.read_result(paths)
    return _state_of_unfinished(paths) if result is None else _done_state(result)


def _done_state(result: Mapping[str, Any]) -> RunState:
    """Return the state of a done run from its result.json."""
    step, success, iterations = (result.get(key) for key in ("step", "success", "iterations"))
    age, reason = _age(result.get("time")), result.get("reason") or ""
    return RunState(RunStatus.DONE, result["outcome"], step, success, iterations, result.get("attempt", 0), age, reason)


def _state_of_unfinished(paths: RunPaths) -> RunState:
    """Return the state of a run whose result.json is missing or damaged."""
    meta = run_files.load_meta(paths)
    if meta is None:
        return RunState(RunStatus.MISSING)
    iterations, headline = meta.get("iterations"), run_files.headline_of(meta)
    attempts = paths.attempts()
    held = lease.state(paths)
    damage = str(run_files.result_damage(paths) or "")
    if held == LeaseState.LIVE or (held == LeaseState.UNKNOWN and not (attempts and attempts[-1].outcome.exists())):
        step, success, age = _progress(paths, headline)
        number = attempts[-1].number if attempts else 0
        task = None if held == LeaseState.LIVE else lease.task_of(paths)
        state = RunStatus.RUNNING if held == LeaseState.LIVE or task else RunStatus.UNKNOWN
        starting = run_files.read_status(attempts[-1]) if attempts and step is None else ""
        where, submission = (task.place, task.submission.name) if task else ("", "")
        return RunState(
            state, None, step, success, iterations, number, age, where, starting=starting, submission=submission
        )
    queued = _queued(paths, attempts, iterations, headline)
    if queued is not None:
        return queued
    if not attempts:
        record = newest_record(paths)
        why = "" if record is None else record.why_not_begun
        return RunState(RunStatus.MISSING, iterations=iterations, reason=why, damage=damage)
    number = attempts[-1].number
    ended = run_files.read_outcome(attempts[-1])
    saved = any(path for attempt in attempts for path in attempt.checkpoints.glob("*"))
    if ended is None or is_result(str(ended.get("outcome", ""))):  # killed before it wrote its outcome or result.json
        step, success, age = _progress(paths, headline)
        reason = damage or "the process vanished"
        return RunState(RunStatus.INTERRUPTED, None, step, success, iterations, number, age, reason, damage, "", saved)
    return RunState(
        RunStatus.FAILED if is_failure(str(ended.get("outcome", ""))) else RunStatus.INTERRUPTED,
        ended.get("outcome"),
        ended.get("step"),
        ended.get("success"),
        iterations,
        number,
        _age(ended.get("time")),
        ended.get("reason") or "",
        damage,
        resumes=saved,
    )


def _age(when: float | None) -> float:
    """Return the seconds since a time; 0 if it is None or in the future (the clock was set back)."""
    return 0.0 if when is None else max(0.0, time.time() - when)


def _queued(
    paths: RunPaths, attempts: Sequence[AttemptPaths], iterations: int | None, headline: str
) -> RunState | None:
    """Return the state of a run that waits at a scheduler; None without an open submission, or if an attempt of that
    submission ended other than interrupted."""
    record = open_record(paths)
    if record is None:
        return None
    where, submission = record.place, record.submission.name
    if not attempts:
        return RunState(RunStatus.QUEUED, iterations=iterations, reason=where, submission=submission)
    newest = attempts[-1]
    ended = run_files.read_outcome(newest) or {}
    outcome = str(ended.get("outcome", ""))
    if newest.number > record.attempts and outcome not in ("", INTERRUPTED):
        return None
    step, success, age = _progress(paths, headline)
    return RunState(RunStatus.QUEUED, None, step, success, iterations, newest.number, age, where, submission=submission)


def _progress(paths: RunPaths, headline: str) -> tuple[int | None, float | None, float | None]:
    """Return `last_progress` of the newest attempt; if it has no success yet, the newest success of the history."""
    attempts = paths.attempts()
    if not attempts:
        return None, None, None
    step, success, age = last_progress(attempts[-1].events, headline)
    if success is None and len(attempts) > 1:
        values = [metric for metric in run_history(paths, uncovered=True)[0] if metric.key == headline]
        success = max(values, key=lambda metric: metric.step).value if values else None
    return step, success, age


def last_progress(events: Path, headline: str = HEADLINE) -> tuple[int | None, float | None, float | None]:
    """Return (newest step, newest headline value, seconds since the last event) of a spool; None for what is absent."""
    newest = read_newest(events, headline)
    age = None
    with contextlib.suppress(OSError):
        age = max(0.0, time.time() - events.stat().st_mtime)
    return newest.step, newest.value, age
