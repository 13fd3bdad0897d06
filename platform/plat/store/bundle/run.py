"""One run as a bundle carries it: read from its run directory, compared with another, written as a run directory.

What counts travels: config, identity, provenance, how the run ended, and its history as the importer would store it.
What belongs to the machine or to one attempt does not: checkpoints, logs, leases, host names and process ids, and all
attempts but the last, whose folder then holds the whole history. The history of a failed run does not travel either:
without its checkpoints a retry starts anew, and two histories would mix. The text of uncommitted code changes, and
the names of files outside version control, travel only when asked for; the hash of the changes always does.

Writing a run directory and reading it again gives the same run.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.outcomes import is_failure
from plat.plain_files import parse_yaml, read_bytes, read_text
from plat.store.durable import to_checked_json, write_file
from plat.store.mlflow.record import NOT_COMPARED
from plat.store.run_directory.files import (
    config_hash,
    read_attempt_meta,
    read_config,
    read_meta,
    read_outcome,
    read_result,
)
from plat.store.run_directory.history import Metric, Table, run_history
from plat.store.run_directory.own_files import FORMAT, hash_of
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.spool import Event, SpoolWriter

PRIVATE = ("host", "boot_id", "pid")  # of an attempt's meta; they say where it ran, and nothing about the result
RESTORED = ("restored_step", "restored_from")  # of an attempt's meta; the attempts that they point to do not travel
DIFF_HASH = "code_diff_sha256"  # in the meta of an imported attempt: the hash of a diff that stayed behind
REDACTED = ("error", "events", "run", "attempt")  # of an attempt's outcome: a message with paths of the machine, and
# what `write_run` writes for the directory that it makes; so it does of these:
OF_DIRECTORY = {"meta.json": ("format", "files"), "attempt.json": ("run",), "result.json": ("events",)}


@dataclass
class BundledRun:
    """What a bundle has of one run. `result` is None for a failed run; `attempt` is the number of the last attempt."""

    meta: dict[str, Any]
    config: str  # YAML text
    code: str | None  # code.txt
    diff: str | None  # code.diff
    diff_sha256: str | None
    result: dict[str, Any] | None
    attempt: int
    attempt_meta: dict[str, Any]
    attempt_outcome: dict[str, Any]
    metrics: list[Metric]
    tables: list[Table]

    @property
    def id(self) -> str:
        return str(self.meta["id"])

    @property
    def name(self) -> str:
        return str(self.meta.get("name", self.id))

    @property
    def outcome(self) -> str:
        return str((self.result or self.attempt_outcome).get("outcome", ""))

    @property
    def base_sha256(self) -> str | None:
        """The content hash of the base model the run started from, where its trainer recorded one."""
        summary = (self.result or {}).get("summary") or {}
        return summary.get("base_sha256") or (self.attempt_meta.get("facts") or {}).get("base_sha256")


def read_run(paths: RunPaths, with_diff: bool = False) -> BundledRun | None:
    """The run of a directory, None while it has not ended; HomeError when its config or meta.json cannot be used.

    with_diff  with the text of uncommitted code changes, and the names of files outside version control
    """
    result, last = read_result(paths), _last_attempt(paths)
    outcome = (read_outcome(last) if last else None) or {}
    if last is None or (result is None and not is_failure(outcome.get("outcome"))):
        return None
    config = read_config(paths)  # it must be readable, and the one the run was made with
    diff = read_bytes(paths.diff) if paths.diff.exists() else None
    metrics, tables = run_history(paths) if result is not None else ([], [])
    metrics, tables = sorted(metrics, key=_step), sorted(tables, key=_step)  # within a step, as they were logged
    hidden = (*PRIVATE, *RESTORED, DIFF_HASH, *OF_DIRECTORY["attempt.json"])
    return BundledRun(
        meta=_without({"config_sha256": config_hash(config), **read_meta(paths)}, "meta.json"),  # plat 0.1 had no hash
        config=read_text(paths.config),
        code=_code_text(paths, with_diff),
        diff=diff.decode(errors="replace") if diff is not None and with_diff else None,
        diff_sha256=hashlib.sha256(diff).hexdigest() if diff is not None else _recorded_diff(last),
        result=None if result is None else _without(result, "result.json"),
        attempt=last.number,
        attempt_meta={key: value for key, value in read_attempt_meta(last).items() if key not in hidden},
        attempt_outcome={key: value for key, value in outcome.items() if key not in REDACTED},
        metrics=metrics,
        tables=tables,
    )


def _without(content: dict[str, Any], file: str) -> dict[str, Any]:
    """A file's content without what is about the directory that it lies in."""
    return {key: value for key, value in content.items() if key not in OF_DIRECTORY[file]}


def _code_text(paths: RunPaths, with_names: bool) -> str | None:
    """The content of code.txt, without the names of changed and of untracked files unless asked for."""
    if not paths.code.exists():
        return None
    lines = read_text(paths.code).splitlines(keepends=True)
    return "".join(line for line in lines if with_names or not line.startswith(("untracked:", "changed:")))


def _step(row: Metric | Table) -> int:
    return row.step


def _last_attempt(paths: RunPaths) -> AttemptPaths | None:
    """The attempt that made the result, else the newest."""
    attempts = paths.attempts()
    number = (read_result(paths) or {}).get("attempt")
    return next((attempt for attempt in attempts if attempt.number == number), attempts[-1] if attempts else None)


def _recorded_diff(attempt: AttemptPaths) -> str | None:
    """The hash of a diff that stayed behind when the run was imported from a bundle."""
    return read_attempt_meta(attempt).get(DIFF_HASH)


def write_run(run: BundledRun, paths: RunPaths) -> None:
    """Make the run's directory, in a place where nobody looks yet: the caller renames it.

    It has the newest format, whatever plat made the bundle.
    """
    attempt = paths.attempt(run.attempt)
    attempt.root.mkdir(parents=True)
    texts = {paths.config: run.config, paths.code: run.code, paths.diff: run.diff}
    written = {path: text.encode() for path, text in texts.items() if text is not None}
    for path, data in written.items():
        write_file(path, data, sync=False)
    code = {path.name: hash_of(data) for path, data in written.items() if path != paths.config}
    facts = {"run": run.id, **run.attempt_meta, "restored_step": None}
    facts |= {DIFF_HASH: run.diff_sha256} if run.diff_sha256 else {}
    write_file(paths.meta, to_checked_json({**run.meta, "format": FORMAT, "files": code}), sync=False)
    write_file(attempt.meta, to_checked_json(facts), sync=False)
    events = _write_events(run, attempt.events)
    outcome = {"run": run.id, "attempt": run.attempt, **run.attempt_outcome, "events": events}
    write_file(attempt.outcome, to_checked_json(outcome), sync=False)
    if run.result is not None:
        result = {**run.result, "events": {str(run.attempt): events}}
        write_file(paths.result, to_checked_json(result), sync=False)


def _write_events(run: BundledRun, path: Path) -> int:
    """The history as one spool, in rising order of steps; values of one step and time share a line again.

    Returns the number of lines, by which a missing end is noticed.
    """
    events: dict[tuple[int, float], dict[str, float]] = {}
    for metric in run.metrics:
        events.setdefault((metric.step, metric.time), {})[metric.key] = metric.value
    lines = [Event("metrics", step, time, metrics) for (step, time), metrics in events.items()]
    lines += [Event("table", table.step, table.time, table=table.name, data=table.data) for table in run.tables]
    spool = SpoolWriter(path, run.id)
    try:
        for event in sorted(lines, key=lambda event: event.step):
            spool.replay(event)
    finally:
        spool.close()
    return spool.count


# -- comparing --------------------------------------------------------------------------------------------------------


def differences(own: BundledRun, bundled: BundledRun) -> list[str]:
    """What differs between two runs of one id, in words; empty when they hold the same results.

    `own` is the home's run, `bundled` the bundle's. `time/` and `mem/`, wall times, attempts and machines may differ.
    """
    lines = []
    if config_of(own) != config_of(bundled):
        lines.append("the config differs")
    facts = (("outcome", own.outcome, bundled.outcome), ("base model", own.base_sha256, bundled.base_sha256))
    for name, ours, theirs in facts:
        if ours != theirs:
            lines.append(f"{name} is {ours or 'not recorded'} here and {theirs or 'not recorded'} in the bundle")
    return (
        lines
        + _differing_values("", _values(own), _values(bundled))
        + _differing_values("table ", _table_values(own), _table_values(bundled))
    )


def config_in(run: BundledRun) -> dict[str, Any]:
    """The resolved config; ValueError when it is not a mapping in YAML."""
    config = parse_yaml(run.config)
    if not isinstance(config, dict):
        raise ValueError("its config is not a mapping")
    return config


def config_of(run: BundledRun) -> str:
    """The hash of the resolved config; ValueError when it is not YAML."""
    return config_hash(config_in(run))


def _values(run: BundledRun) -> dict[tuple[str, int], Any]:
    return {
        (metric.key, metric.step): None if math.isnan(metric.value) else metric.value
        for metric in run.metrics
        if not metric.key.startswith(NOT_COMPARED)
    }


def _table_values(run: BundledRun) -> dict[tuple[str, int], Any]:
    return {(table.name, table.step): json.dumps(table.data, sort_keys=True) for table in run.tables}


def _differing_values(prefix: str, ours: dict[tuple[str, int], Any], theirs: dict[tuple[str, int], Any]) -> list[str]:
    """One line about the first value that differs, with the number of others."""
    keys = [key for key in sorted({*ours, *theirs}) if key not in ours or key not in theirs or ours[key] != theirs[key]]
    if not keys:
        return []
    name, step = keys[0]

    def shown(values: dict[tuple[str, int], Any]) -> str:
        if keys[0] not in values:
            return "absent"
        return "NaN" if values[keys[0]] is None else str(values[keys[0]])[:40]

    rest = f" (and {len(keys) - 1} more)" if len(keys) > 1 else ""
    return [f"{prefix}{name} at step {step} is {shown(ours)} here and {shown(theirs)} in the bundle{rest}"]
