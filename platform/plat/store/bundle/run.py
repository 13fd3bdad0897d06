"""Read a run for a bundle from its run directory, compare it with another, and write it as a run directory.

Included: config, identity, provenance, outcome, and the history as the importer would store it, in one attempt (the
last). Excluded: checkpoints, logs, leases, host names and process ids. A failed run has no history: a retry without
checkpoints starts again, and two histories would mix. The text of uncommitted code changes and the names of changed and
untracked files are optional; the hash of the changes is always included. Writing and reading a run gives the same run.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.plain_files import parse_yaml
from plat.store.disk.durable import to_checked_json, write_file
from plat.store.measured import NOT_COMPARED
from plat.store.run_directory import run_files
from plat.store.run_directory.description import DIFF_HASH, describe, last_attempt
from plat.store.run_directory.history import Metric, Table, run_history
from plat.store.run_directory.own_files import FORMAT, hash_of
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.spool import Event, SpoolWriter
from plat.words.outcomes import is_failure


@dataclass
class BundledRun:
    """One run in a bundle. `result` is None for a failed run; `attempt` is the number of the last attempt."""

    meta: dict[str, Any]
    config: str  # YAML text
    code: str | None  # code.txt
    diff: str | None  # code.diff, in bundles of plat 0.4
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
        """Return the content hash of the run's base model, None if its trainer recorded none."""
        summary = (self.result or {}).get("summary") or {}
        return summary.get("base_sha256") or (self.attempt_meta.get("facts") or {}).get("base_sha256")


def read_run(paths: RunPaths) -> BundledRun | None:
    """Return the run of a directory, None unless it has a result or its last attempt failed.

    The text of uncommitted code changes, which runs of plat 0.4 may have, and the names of changed and untracked files
    are left out. Raises HomeError if its config or meta.json is unusable, OSError or ValueError if another of
    its files is.
    """
    result, last = run_files.read_result(paths), last_attempt(paths)
    outcome = (run_files.read_outcome(last) if last else None) or {}
    if last is None or (result is None and not is_failure(outcome.get("outcome"))):
        return None
    run_files.read_config(paths)  # raises HomeError if it is unreadable or was edited
    metrics, tables = run_history(paths) if result is not None else ([], [])
    return BundledRun(
        **describe(paths, run_files.read_meta(paths)),
        diff=None,
        metrics=sorted(metrics, key=lambda row: row.step),  # stable: logged order in a step
        tables=sorted(tables, key=lambda row: row.step),
    )


def write_run(run: BundledRun, paths: RunPaths) -> None:
    """Write the run as a run directory of the newest format at `paths`, from which the caller moves it to its place."""
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
    """Write the history as one spool in ascending order of steps; values of one step and time share a line.

    Returns the number of lines, by which a reader detects a missing end.
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
    """Return the differences between the home's and the bundle's run of one id, in words; [] if the results are equal.

    Ignores `time/` and `mem/` metrics, wall times, attempts and machines.
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
    """Return the resolved config; raises ValueError if it is not a YAML mapping."""
    config = parse_yaml(run.config)
    if not isinstance(config, dict):
        raise ValueError("its config is not a mapping")
    return config


def config_of(run: BundledRun) -> str:
    """Return the hash of the resolved config; raises ValueError if it is not a YAML mapping."""
    return run_files.config_hash(config_in(run))


def _values(run: BundledRun) -> dict[tuple[str, int], Any]:
    return {
        (metric.key, metric.step): None if math.isnan(metric.value) else metric.value
        for metric in run.metrics
        if not metric.key.startswith(NOT_COMPARED)
    }


def _table_values(run: BundledRun) -> dict[tuple[str, int], Any]:
    return {(table.name, table.step): json.dumps(table.data, sort_keys=True) for table in run.tables}


def _differing_values(prefix: str, ours: dict[tuple[str, int], Any], theirs: dict[tuple[str, int], Any]) -> list[str]:
    """Return one line about the first value that differs, with the number of others; [] if none does."""
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
