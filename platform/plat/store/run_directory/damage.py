"""What is wrong with the files of a run, so that a damaged run never passes for a whole one.

Checked: every file that counts is of this run (`plat.store.run_directory.own_files`); every event that a checkpoint or
the result covers is there and unchanged (by the numbers and checksums of its lines; lines of plat 0.1 have neither, and
only have to be readable); the events reach the step, and hold the success, that result.json names; the outcome.json
behind the result is there and says the same; the attempts a run was resumed from are still there; code.txt and
code.diff are as recorded. The config is checked by `plat.store.run_directory.files.config_damage`. What a trainer says
of itself in its summary is no evidence: it may be rounded, or be about something else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plat.outcomes import is_result
from plat.store.run_directory.checkpoint import list_checkpoints, other_run
from plat.store.run_directory.files import (
    damaged_files,
    headline_of,
    load_meta,
    read_attempt_meta,
    read_outcome,
    read_result,
    result_damage,
)
from plat.store.run_directory.history import Coverage, Metric, Table, covered_attempts, recorded_events
from plat.store.run_directory.own_files import Rules, code_damage, rules_of
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.spool import read_events

REPEATED = ("outcome", "reason", "step", "success", "summary", "time")  # of outcome.json, in result.json


def damage(paths: RunPaths, metrics: Sequence[Metric], tables: Sequence[Table]) -> str:
    """What is wrong with this run, whose history `run_history` gave, in one line; "" when nothing is."""
    return (
        spool_damage(paths)
        or next((f"{path.relative_to(paths.root)} {says}" for path, says in files_to_set_aside(paths).items()), "")
        or _result_damage(paths, metrics, tables)
        or code_damage(paths, load_meta(paths))
    )


def files_to_set_aside(paths: RunPaths) -> dict[Path, str]:
    """What is damaged or of another run in the attempts besides their events -> what is wrong with it ("is ...").

    An attempt.json says what the attempt started from, an outcome.json how it ended. Of the checkpoints those that say
    how much of an attempt counts are looked at; a run that goes on checks what it restores.
    """
    made_result = (read_result(paths) or {}).get("attempt")
    found: dict[Path, str] = {}
    for attempt in paths.attempts():
        found |= {path: says.removeprefix(f"{path.name} ") for path, says in damaged_files(attempt).items()}
        if attempt.number != made_result:
            checkpoints = [path for _, path in list_checkpoints(attempt.checkpoints)]
            found |= {path: f"is of run {other}" for path in checkpoints if (other := other_run(path))}
    return found


def spool_damage(paths: RunPaths) -> str:
    """What is wrong with the events that count, in one line; "" when nothing is."""
    meta = load_meta(paths)
    for attempt, coverage in covered_attempts(paths):
        problem = _spool_damage(attempt, coverage, rules_of(meta), headline_of(meta))
        if problem:
            return f"{attempt.events.relative_to(paths.root)} {problem}"
    return ""


def _spool_damage(attempt: AttemptPaths, coverage: Coverage, rules: Rules, headline: str) -> str:
    """What is wrong with one spool as far as it counts. Steps only rise, so lines behind a later step do not count."""
    numbers: set[int] = set()
    success = None
    for line, event in enumerate(read_events(attempt.events)[0], start=1):
        if event.step > coverage.step or len(numbers) == coverage.events:
            break
        if event.kind == "unreadable":
            return f"cannot be read: {event.data}"
        if event.kind == "corrupt":
            return f"line {line} is damaged"
        if event.kind == "foreign":
            return f"line {line} is of run {event.data}"
        if event.number is None and rules.checked:
            return f"line {line} has no checksum"
        if event.run is None and rules.named:
            return f"line {line} does not name its run"
        if event.number is not None:
            numbers.add(event.number)
        success = event.metrics.get(headline, success)
    expected = coverage.events if coverage.events is not None else max(numbers, default=0)
    missing = sorted(set(range(1, expected + 1)) - numbers)
    if missing:
        return f"lacks {_numbers(missing)} of {expected}"
    differs = None not in (success, coverage.success, coverage.events) and _text(success) != _text(coverage.success)
    return f"has the success {success}, the checkpoint {coverage.success}" if differs else ""


def _numbers(missing: list[int]) -> str:
    """ "event 4", "events 4 to 6", or "events 4 to 9 and others" when there is more than one gap."""
    first = missing[0]
    length = next((at for at, number in enumerate(missing) if number != first + at), len(missing))
    text = f"event {first}" if length == 1 else f"events {first} to {first + length - 1}"
    return text if length == len(missing) else f"{text} and others"


def _result_damage(paths: RunPaths, metrics: Sequence[Metric], tables: Sequence[Table]) -> str:
    result = read_result(paths)
    if result is None:
        return result_damage(paths)
    steps = [row.step for row in metrics] + [row.step for row in tables]
    last = result.get("step")
    if isinstance(last, int) and max(steps, default=-1) < last:
        return f"the events end at step {max(steps)} of {last}" if steps else "there are no events"
    for attempt in paths.attempts():
        if attempt.number == result.get("attempt") and _is_cut(attempt):
            return f"the last line of {attempt.events.relative_to(paths.root)} is cut"
    if problem := _attempts_behind(paths, result):
        return problem
    before = 0
    for restored in _restored_steps(paths):
        if not any(before <= step <= restored for step in steps):
            return f"the events (or the checkpoints) of the attempt that reached step {restored} are gone"
        before = restored + 1
    success = result.get("success")
    headline = headline_of(load_meta(paths))
    logged = {row.value for row in metrics if row.key == headline}
    if isinstance(success, int | float) and success >= 0 and success not in logged:
        return f"the success {success} of result.json is not in the events"
    return ""


def _attempts_behind(paths: RunPaths, result: dict[str, Any]) -> str:
    """What is wrong with the attempts that a result was made of; older runs do not say which these are."""
    covered = {attempt.number for attempt, _ in covered_attempts(paths)}
    for number in sorted(recorded_events(result).keys() - covered):
        return f"attempts/{number:03d} (or its checkpoints) is gone"
    if not isinstance(result.get("attempt"), int):
        return ""
    attempt = paths.attempt(result["attempt"])
    if not rules_of(load_meta(paths)).checked:
        return ""
    outcome, name = read_outcome(attempt), attempt.outcome.relative_to(paths.root)
    if outcome is None:
        return f"{name} is missing"
    if is_result(str(outcome.get("outcome", ""))):  # else its process was taken for dead before it could say so
        for key in REPEATED:
            if key in outcome and key in result and _text(outcome[key]) != _text(result[key]):
                return f"{name} is not that of the result: its {key} differs"
    return ""


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)  # NaN is equal to itself


def _restored_steps(paths: RunPaths) -> list[int]:
    """The steps above 0 from which attempts went on, in rising order."""
    steps = [read_attempt_meta(attempt).get("restored_step") for attempt in paths.attempts()]
    return sorted({step for step in steps if isinstance(step, int) and step > 0})


def _is_cut(attempt: AttemptPaths) -> bool:
    """Whether a spool that was closed properly ends within a line."""
    try:
        return attempt.events.stat().st_size > read_events(attempt.events)[1]
    except OSError:
        return False
