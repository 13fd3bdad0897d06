"""What MLflow should hold for one run, read from its run directory: the importer's pure half.

Promised: a record is a function of the run directory and of the files that want the run. Times come from the spool's
lines, never from the clock, so that importing again gives the same record. Of the history, only what `run_history`
calls durable is in it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from plat.errors import HomeError
from plat.outcomes import is_result
from plat.plain_files import read_bytes
from plat.store.mlflow.run_tags import code_tags, identity_tags, result_tags, status_of
from plat.store.mlflow.spelling import PARAM_LENGTH, TAG_LENGTH, clean_key, cut, flatten, millis, text
from plat.store.run_directory.damage import damage
from plat.store.run_directory.files import (
    config_damage,
    load_config,
    load_meta,
    read_attempt_meta,
    read_outcome,
    read_result,
)
from plat.store.run_directory.history import run_history
from plat.store.run_directory.paths import AttemptPaths, RunPaths

FORMAT = 2  # raise it when records change, and every run is compared with the store once more
TABLES = "tables.jsonl"
DAMAGED = "damaged"  # outcome of a done run whose history is not whole
NOT_COMPARED = ("time/", "mem/")  # may differ between two executions of one run


class Point(NamedTuple):
    """One value of one metric; `time` in milliseconds since 1970."""

    key: str
    step: int
    value: float
    time: int


@dataclass
class RunRecord:
    """Everything of one run, in MLflow's terms. `end` is None while it has not ended; times in milliseconds."""

    id: str
    name: str
    experiment: str  # name of the MLflow experiment
    files: list[str]  # experiment files that want it, the one that asked first at the head
    signature: str
    status: str  # RUNNING | FINISHED | FAILED | KILLED
    start: int
    end: int | None
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)  # by step, then key
    artifacts: dict[str, bytes] = field(default_factory=dict)
    damage: str = ""  # what is missing from the history, one line

    @property
    def done(self) -> bool:
        return self.status == "FINISHED"


def experiment_name(paper: str | None, file: str | None, scale: str | None) -> str:
    """The MLflow experiment of a paper at a scale: `ragen2 · laptop`; the file's stem stands in for a missing paper."""
    return " · ".join(part for part in (paper or file or "plat", scale) if part)


def signature(folder: str) -> str | None:
    """A cheap fingerprint of a run directory (sizes and times of its files); None when there is no run in it.

    An ended run never changes except for the list of files that ask for it, so two files speak for all.
    """
    meta = _stat(f"{folder}/meta.json")
    if meta is None:
        return None
    result = _stat(f"{folder}/result.json")
    parts: list[object] = [FORMAT, meta, result]
    if result is None:
        for attempt in RunPaths(Path(folder)).attempts():
            parts += [attempt.number, _stat(attempt.events), _stat(attempt.outcome), _stat(attempt.checkpoints)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def has_begun(paths: RunPaths) -> bool:
    """Whether there is anything to record of a run: an attempt, or a result."""
    return paths.result.exists() or bool(paths.attempts())


def _stat(path: str | Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def read_record(paths: RunPaths, wanted_by: Sequence[str] = (), with_diff: bool = False) -> RunRecord | None:
    """The record of a run directory, None when its meta.json or config.yaml is missing or not readable.

    wanted_by  files that want this run besides those that meta.json names
    with_diff  with the text of uncommitted code changes; without it, their hash alone (the tag plat.code.diff_sha256)
    """
    mark = signature(str(paths.root))  # before anything is read: what changes meanwhile is seen at the next import
    meta = load_meta(paths)
    if mark is None or meta is None:
        return None
    try:
        config = load_config(paths, meta)
    except HomeError:
        return None
    files = list(dict.fromkeys(clean_key(name) for name in [*meta.get("experiments", []), *wanted_by]))
    wrong_config = config_damage(meta, config)
    trusted = {} if wrong_config else config
    points, tables, wrong_history = _history(paths)
    result = read_result(paths)
    attempts = paths.attempts()
    ended = _ended(result, attempts)
    status = status_of(str(ended.get("outcome", "")))
    end = None if status == "RUNNING" else millis(ended.get("time"))
    times = [millis(meta.get("created")), *(point.time for point in points[:1]), end]
    started = [read_attempt_meta(attempt) for attempt in attempts]
    newest = started[-1] if started else {}
    number = (result or {}).get("attempt") or (attempts[-1].number if attempts else 0)
    tags = {
        **identity_tags(paths.id, meta, files, number),
        **code_tags(meta, started),
        **result_tags(meta, ended, newest.get("facts")),
    }
    return RunRecord(
        id=paths.id,
        name=tags["plat.name"],
        experiment=experiment_name(
            meta.get("paper"), files[0] if files else None, meta.get("scale") or trusted.get("scale")
        ),
        files=files,
        signature=mark,
        status=status,
        start=min((time for time in times if time is not None), default=0),
        end=end,
        params={clean_key(key): cut(text(value), PARAM_LENGTH) for key, value in flatten(trusted).items()},
        tags={clean_key(key): cut(value, TAG_LENGTH) for key, value in tags.items()},
        points=points,
        artifacts=_artifacts(paths, tables, with_config=not wrong_config, with_diff=with_diff),
        damage=wrong_config or wrong_history,
    )


def _ended(result: dict[str, Any] | None, attempts: Sequence[AttemptPaths]) -> dict[str, Any]:
    """What result.json says, else outcome.json of the newest attempt; {} while the run goes on."""
    if result is not None:
        return result
    ended = (read_outcome(attempts[-1]) if attempts else None) or {}
    return {} if is_result(str(ended.get("outcome", ""))) else ended  # only result.json makes a run done


def _artifacts(
    paths: RunPaths, tables: Sequence[dict[str, Any]], *, with_config: bool, with_diff: bool
) -> dict[str, bytes]:
    """The files to store with a run, by name: those that say what it is, and its tables as JSON lines."""
    files = [*([paths.config] if with_config else []), paths.code, *([paths.diff] if with_diff else [])]
    artifacts = {path.name: data for path in files if (data := _content(path)) is not None}
    if tables:
        artifacts[TABLES] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in tables).encode()
    return artifacts


def _content(path: Path) -> bytes | None:
    """What a file holds; None when it is absent or cannot be read: one bad file does not hide the rest of a run."""
    try:
        return read_bytes(path)
    except OSError:
        return None


def without_history(record: RunRecord) -> RunRecord:
    """A run that is damaged, with nothing that could be taken for its results; a done one is named as such.

    Its signature is no run directory's, so that every import looks at it, and says so, again.
    """
    files = {name: data for name, data in record.artifacts.items() if name != TABLES}
    kept = replace(record, signature=DAMAGED, points=[], artifacts=files)
    if not record.done:
        return kept
    tags = record.tags | {"plat.outcome": DAMAGED, "plat.reason": cut(record.damage, TAG_LENGTH)}
    return replace(kept, status="FAILED", tags=tags)


def _history(paths: RunPaths) -> tuple[list[Point], list[dict[str, Any]], str]:
    """(metrics, tables, what is missing of them because a file is damaged) of a run."""
    metrics, tables = run_history(paths)
    first: dict[tuple[str, int], Point] = {}
    names: dict[str, str] = {}
    for row in metrics:
        key = names.get(row.key) or names.setdefault(row.key, clean_key(row.key))
        first.setdefault((key, row.step), Point(key, row.step, float(row.value), millis(row.time) or 0))
    points = sorted(first.values(), key=lambda point: (point.step, point.key))
    rows = [{"name": row.name, "step": row.step, "data": row.data} for row in tables]
    return points, rows, damage(paths, metrics, tables)
