"""What MLflow should hold for one run, read from its run directory: the importer's pure half.

Promised: a record is a function of the run directory and of the files that want the run. Times come from the spool's
lines, never from the clock, so that importing again gives the same record. Of the history, only what `run_history`
calls durable is in it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from plat.errors import HomeError
from plat.outcomes import ENDED_ON_REQUEST, is_failure, is_result
from plat.store.home import AttemptPaths, RunPaths
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

FORMAT = 2  # raise it when records change, and every run is compared with the store once more
TABLES = "tables.jsonl"
DAMAGED = "damaged"  # outcome of a done run whose history is not whole
CODE_FACTS = ("commit", "dirty", "diff_sha256")  # of meta.json's `code`, as tags
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
    points, tables, wrong = _history(paths)
    result = read_result(paths)
    attempts = paths.attempts()
    ended = result or (read_outcome(attempts[-1]) if attempts else None) or {}
    outcome = str(ended.get("outcome", ""))
    if result is None and is_result(outcome):  # only result.json makes a run done
        ended, outcome = {}, ""
    status = _status(outcome)
    end = None if status == "RUNNING" else millis(ended.get("time"))
    first = [millis(meta.get("created")), *(point.time for point in points[:1]), end]
    start = min((time for time in first if time is not None), default=0)
    trusted = {} if wrong_config else config
    scale = meta.get("scale") or trusted.get("scale")
    facts = read_attempt_meta(attempts[-1]).get("facts") if attempts else None  # what it started from
    tags = {
        "plat.kind": "run",
        "plat.id": paths.id,
        "plat.name": str(meta.get("name", paths.id)),
        "plat.attempt": str((result or {}).get("attempt") or (attempts[-1].number if attempts else 0)),
        "plat.axes": json.dumps(meta.get("axes", {}), ensure_ascii=False),
        **{f"plat.axis.{axis}": text(value) for axis, value in meta.get("axes", {}).items()},
        **{f"plat.in.{file}": "1" for file in files},
        **{f"plat.study.{study}": ", ".join(trials) for study, trials in (meta.get("studies") or {}).items()},
        **_code_tags(meta, attempts[-1] if attempts else None),
        **result_tags(meta, ended, facts),
    }
    kept = [paths.config, paths.code, *([paths.diff] if with_diff else [])]
    artifacts = {path.name: data for path in kept if (data := _read(path.read_bytes)) is not None}
    if wrong_config:
        del artifacts[paths.config.name]
    if tables:
        artifacts[TABLES] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in tables).encode()
    return RunRecord(
        id=paths.id,
        name=tags["plat.name"],
        experiment=experiment_name(meta.get("paper"), files[0] if files else None, scale),
        files=files,
        signature=mark,
        status=status,
        start=start,
        end=end,
        params={clean_key(key): cut(text(value), PARAM_LENGTH) for key, value in flatten(trusted).items()},
        tags={clean_key(key): cut(value, TAG_LENGTH) for key, value in tags.items()},
        points=points,
        artifacts=artifacts,
        damage=wrong_config or wrong,
    )


def result_tags(meta: Mapping[str, Any], ended: Mapping[str, Any], facts: Mapping[str, Any] | None) -> dict[str, str]:
    """The tags that say what made a run and how it ended.

    ended  the content of result.json, or of the last attempt's outcome.json; empty where the run goes on
    facts  what the last attempt recorded at its start
    """
    tags = {
        "plat.trainer": f"{meta.get('trainer', '')} {meta.get('trainer_version', '')}".strip(),
        "plat.identity_scheme": str(meta.get("identity_scheme", 1)),  # the first scheme did not say its number
    }
    summary = {**(facts or {}), **(ended.get("summary") or {})}
    tags |= {f"plat.summary.{key}": text(value) for key, value in summary.items()}
    outcome = str(ended.get("outcome", ""))
    if _status(outcome) == "RUNNING":
        return tags
    tags["plat.outcome"] = outcome
    end = millis(ended.get("time"))
    if end is not None:
        tags["plat.ended"] = datetime.fromtimestamp(end // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if ended.get("reason"):
        tags["plat.reason"] = str(ended["reason"])
    return tags


def without_history(record: RunRecord) -> RunRecord:
    """A done run that is damaged: named as such, with nothing that could be taken for its results.

    Its signature is no run directory's, so that every import looks at it, and says so, again.
    """
    tags = record.tags | {"plat.outcome": DAMAGED, "plat.reason": cut(record.damage, TAG_LENGTH)}
    files = {name: data for name, data in record.artifacts.items() if name != TABLES}
    return replace(record, signature=DAMAGED, status="FAILED", tags=tags, points=[], artifacts=files)


def _history(paths: RunPaths) -> tuple[list[Point], list[dict[str, Any]], str]:
    metrics, tables = run_history(paths)
    first: dict[tuple[str, int], Point] = {}
    names: dict[str, str] = {}
    for row in metrics:
        key = names.get(row.key) or names.setdefault(row.key, clean_key(row.key))
        first.setdefault((key, row.step), Point(key, row.step, float(row.value), millis(row.time) or 0))
    points = sorted(first.values(), key=lambda point: (point.step, point.key))
    rows = [{"name": row.name, "step": row.step, "data": row.data} for row in tables]
    return points, rows, damage(paths, metrics, tables)


def _status(outcome: str) -> str:
    if is_result(outcome):
        return "FINISHED"
    if is_failure(outcome):
        return "FAILED"
    return "KILLED" if outcome in ENDED_ON_REQUEST else "RUNNING"  # interrupted: it will go on


def _code_tags(meta: Mapping[str, Any], attempt: AttemptPaths | None) -> dict[str, str]:
    """What the run was made with: commit and versions, and the hardware of the newest attempt."""
    code = meta.get("code") or {}
    tags = {f"plat.versions.{package}": str(number) for package, number in (code.get("versions") or {}).items()}
    tags |= {f"plat.code.{key}": text(code[key]) for key in CODE_FACTS if code.get(key) is not None}
    for plug_in in code.get("plug_ins") or ():
        tags[f"plat.plug_in.{plug_in['package']}"] = text(plug_in)
    if code.get("commit"):
        tags["mlflow.source.git.commit"] = str(code["commit"])
    facts = read_attempt_meta(attempt) if attempt else {}
    hardware = facts.get("hardware")
    if isinstance(hardware, Mapping):
        tags |= {f"plat.hardware.{key}": text(value) for key, value in flatten(hardware).items()}
    elif hardware:
        tags["plat.hardware"] = text(hardware)
    return tags | ({"plat.host": str(facts["host"])} if facts.get("host") else {})


def _read(read: Any) -> Any:
    """What `read()` gives, or None when the file is absent or damaged: one bad file does not hide the rest of a run."""
    import yaml

    try:
        return read()
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None
