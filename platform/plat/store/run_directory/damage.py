"""Detect damage of a run's files, so that a damaged run never counts as complete. The checks:

    files      each is of this run (`plat.store.run_directory.own_files`)
    events     all that a checkpoint or the result covers are present and unchanged, by their numbers and checksums
    result     the events reach its step and contain its success; the outcome.json of its attempt agrees
    attempts   those that the run was resumed from are present
    code       code.txt and code.diff are as recorded, and no file of the run's identity changed while it executed

Not checked: the config (see `run_files.config_damage`), and the trainer's summary, whose values may be rounded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plat.store.run_directory import run_files
from plat.store.run_directory.checkpoint import list_checkpoints, other_run
from plat.store.run_directory.history import Coverage, Metric, Table, covered_attempts, recorded_events
from plat.store.run_directory.own_files import Damage, code_damage
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.spool import read_events
from plat.words.outcomes import is_result

CODE_CHANGED = "code_changed"  # of a summary: the files of the run's identity that changed while it executed
REPEATED = ("outcome", "reason", "step", "success", "summary", "time")  # of outcome.json, in result.json


def damage(paths: RunPaths, metrics: Sequence[Metric], tables: Sequence[Table]) -> Damage | None:
    """Return the first damage of a run, None if there is none. Pass the metrics and tables of `run_history`."""
    return (
        spool_damage(paths)
        or next(iter(files_to_set_aside(paths).values()), None)
        or _result_damage(paths, metrics, tables)
        or code_damage(paths, run_files.load_meta(paths))
    )


def files_to_set_aside(paths: RunPaths) -> dict[Path, Damage]:
    """Return path -> damage of each damaged or foreign attempt.json, outcome.json and checkpoint.

    A checkpoint counts as foreign if it names another run; its content is not checked. Checkpoints of the attempt that
    made the result are never returned.
    """
    made_result = (run_files.read_result(paths) or {}).get("attempt")
    found: dict[Path, Damage] = {}
    for attempt in paths.attempts():
        found |= run_files.damaged_files(attempt)
        if attempt.number != made_result:
            for _, path in list_checkpoints(attempt.checkpoints):
                if other := other_run(path):
                    found[path] = Damage(f"is of run {other}", str(path.relative_to(paths.root)), foreign=True)
    return found


def spool_damage(paths: RunPaths) -> Damage | None:
    """Return the first damage of the events that count; None if there is none."""
    headline = run_files.headline_of(run_files.load_meta(paths))
    for attempt, coverage in covered_attempts(paths):
        if damage := _spool_damage(attempt, coverage, headline):
            return damage
    return None


def _spool_damage(attempt: AttemptPaths, coverage: Coverage, headline: str) -> Damage | None:
    """Return the first damage in the part of one spool that counts; None if there is none."""
    file = str(attempt.events.relative_to(attempt.run.root))
    numbers: set[int] = set()
    success = None
    for line, event in enumerate(read_events(attempt.events)[0], start=1):
        if event.step > coverage.step or len(numbers) == coverage.events:
            break  # steps never decrease but for late events, so no later line counts
        if event.kind == "unreadable":
            return Damage(f"cannot be read: {event.data}", file)
        if event.kind == "corrupt":
            return Damage(f"line {line} is damaged", file)
        if event.kind == "foreign":
            return Damage(f"line {line} is of run {event.data}", file, foreign=True)
        numbers.add(event.number)
        success = event.metrics.get(headline, success)
    expected = coverage.events if coverage.events is not None else max(numbers, default=0)
    missing = sorted(set(range(1, expected + 1)) - numbers)
    if missing:
        return Damage(f"lacks {_numbers(missing)} of {expected}", file)
    differs = None not in (success, coverage.success, coverage.events) and _text(success) != _text(coverage.success)
    return Damage(f"has the success {success}, but the checkpoint has {coverage.success}", file) if differs else None


def _numbers(missing: list[int]) -> str:
    """Return "event 4", "events 4 to 6", or "events 4 to 9 and others" if there is more than one gap."""
    first = missing[0]
    length = next((at for at, number in enumerate(missing) if number != first + at), len(missing))
    text = f"event {first}" if length == 1 else f"events {first} to {first + length - 1}"
    return text if length == len(missing) else f"{text} and others"


def _result_damage(paths: RunPaths, metrics: Sequence[Metric], tables: Sequence[Table]) -> Damage | None:
    result = run_files.read_result(paths)
    if result is None:
        return run_files.result_damage(paths)
    steps = [row.step for row in metrics] + [row.step for row in tables]
    last = result.get("step")
    if isinstance(last, int) and max(steps, default=-1) < last:
        return Damage(f"the events end at step {max(steps)} of {last}" if steps else "there are no events")
    for attempt in paths.attempts():
        if attempt.number == result.get("attempt") and _is_cut(attempt):
            return Damage(f"the last line of {attempt.events.relative_to(paths.root)} is cut")
    if changed := (result.get("summary") or {}).get(CODE_CHANGED):
        return Damage(f"may be of two versions of the code: {changed} changed while it executed")
    if problem := _attempts_behind(paths, result):
        return problem
    before = 0
    resumed_at = {run_files.read_attempt_meta(attempt).get("restored_step") for attempt in paths.attempts()}
    for restored in sorted(step for step in resumed_at if isinstance(step, int) and step > 0):
        if not any(before <= step <= restored for step in steps):
            return Damage(f"the events (or the checkpoints) of the attempt that reached step {restored} are gone")
        before = restored + 1
    success = result.get("success")
    headline = run_files.headline_of(run_files.load_meta(paths))
    logged = {row.value for row in metrics if row.key == headline}
    if isinstance(success, int | float) and success >= 0 and success not in logged:
        return Damage(f"the success {success} of result.json is not in the events")
    return None


def _attempts_behind(paths: RunPaths, result: dict[str, Any]) -> Damage | None:
    """Return the damage of the attempts that a result names; None if there is none."""
    covered = {attempt.number for attempt, _ in covered_attempts(paths)}
    for number in sorted(recorded_events(result).keys() - covered):
        return Damage("(or its checkpoints) is gone", f"attempts/{number:03d}")
    if not isinstance(result.get("attempt"), int):
        return None
    attempt = paths.attempt(result["attempt"])
    outcome, name = run_files.read_outcome(attempt), str(attempt.outcome.relative_to(paths.root))
    if outcome is None:
        return Damage("is missing", name)
    if is_result(str(outcome.get("outcome", ""))):  # else the attempt was ended before its process wrote the outcome
        for key in REPEATED:
            if key in outcome and key in result and _text(outcome[key]) != _text(result[key]):
                return Damage(f"does not match result.json: {key} differs", name)
    return None


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)  # NaN is equal to itself


def _is_cut(attempt: AttemptPaths) -> bool:
    """Return True if a spool ends within a line."""
    try:
        return attempt.events.stat().st_size > read_events(attempt.events)[1]
    except OSError:
        return False
