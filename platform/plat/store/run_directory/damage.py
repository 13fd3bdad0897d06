"""What is wrong with the files of a run, so that a damaged run never passes for a whole one.

Checked: every event that a checkpoint or the result covers is there and unchanged (by the numbers and checksums of its
lines; lines of plat 0.1 have neither, and only have to be readable); the events reach the step, and hold the success,
that result.json names; the attempts a run was resumed from are still there. The config is checked by
`plat.store.run_directory.files.config_damage`. What a trainer says of itself in its summary is no evidence: it may be
rounded, or be about something else.
"""

from __future__ import annotations

from collections.abc import Sequence

from plat.store.run_directory.files import (
    attempt_damage,
    headline_of,
    load_meta,
    read_attempt_meta,
    read_result,
    result_damage,
)
from plat.store.run_directory.history import Coverage, Metric, Table, covered_attempts
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.spool import read_events

CHECKED_SCHEME = 2  # of the identity: the plat that wrote it gave every line a number and a checksum


def damage(paths: RunPaths, metrics: Sequence[Metric], tables: Sequence[Table]) -> str:
    """What is wrong with this run, whose history `run_history` gave, in one line; "" when nothing is."""
    return spool_damage(paths) or _attempts_damage(paths) or _result_damage(paths, metrics, tables)


def _attempts_damage(paths: RunPaths) -> str:
    """Which attempt.json is there and cannot be read; it says what the attempt started from."""
    for attempt in paths.attempts():
        if problem := attempt_damage(attempt):
            return f"{attempt.root.relative_to(paths.root)}/{problem}"
    return ""


def spool_damage(paths: RunPaths) -> str:
    """What is wrong with the events that count, in one line; "" when nothing is."""
    checked = ((load_meta(paths) or {}).get("identity_scheme") or 1) >= CHECKED_SCHEME
    for attempt, coverage in covered_attempts(paths):
        problem = _spool_damage(attempt, coverage, checked)
        if problem:
            return f"{attempt.events.relative_to(paths.root)} {problem}"
    return ""


def _spool_damage(attempt: AttemptPaths, coverage: Coverage, checked: bool) -> str:
    """What is wrong with one spool as far as it counts. Steps only rise, so lines behind a later step do not count.

    checked  whether every line must have a number and a checksum
    """
    numbers: set[int] = set()
    for line, event in enumerate(read_events(attempt.events)[0], start=1):
        if event.step > coverage.step or len(numbers) == coverage.events:
            break
        if event.kind == "unreadable":
            return f"cannot be read: {event.data}"
        if event.kind == "corrupt":
            return f"line {line} is damaged"
        if event.number is None and checked:
            return f"line {line} has no checksum"
        if event.number is not None:
            numbers.add(event.number)
    expected = coverage.events if coverage.events is not None else max(numbers, default=0)
    missing = sorted(set(range(1, expected + 1)) - numbers)
    return f"lacks {_numbers(missing)} of {expected}" if missing else ""


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
