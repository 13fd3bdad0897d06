"""Read from a run directory the record that MLflow should hold of the run.

A record depends only on the run directory and on the files that ask for the run. Times come from the spool, never from
the clock, so that a repeated import gives the same record. It has only the durable history (`run_history`), whole in
the artifact (`plat.store.measured`) and thinned in the mirror that MLflow's tables hold.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from plat.characters import masked
from plat.errors import HomeError
from plat.plain_files import read_bytes
from plat.store.measured import encode, sha256_of
from plat.store.mlflow.run_tags import (
    PARAM_LENGTH,
    TAG_LENGTH,
    clean_key,
    code_tags,
    cut,
    flatten,
    identity_tags,
    metric_key,
    millis,
    result_tags,
    status_of,
    text,
)
from plat.store.run_directory import run_files
from plat.store.run_directory.damage import damage
from plat.store.run_directory.description import describe
from plat.store.run_directory.history import Metric, Table, run_history
from plat.store.run_directory.own_files import Damage
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.words.outcomes import is_result

FORMAT = 3  # raise it when records change: every run is then compared with the store again
DAMAGED = "damaged"  # outcome of a done run whose history is incomplete
MOST_MIRRORED = 600  # values of a run that MLflow's tables mirror, unless it has more metrics: its page draws fewer
FOREIGN = "recorded"  # trainer of runs that other tools have made: only their last values are mirrored


class Point(NamedTuple):
    """One value of one metric; `time` in milliseconds since 1970."""

    key: str
    step: int
    value: float
    time: int


@dataclass
class RunRecord:
    """The content of one run in MLflow's terms. Times are in milliseconds; `end` is None until the run has ended."""

    id: str
    name: str
    experiment: str  # name of the MLflow experiment
    files: list[str]  # experiment files that ask for it, the first to ask at the head
    signature: str
    status: str  # RUNNING | FINISHED | FAILED | KILLED
    start: int
    end: int | None
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: list[Metric] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    files_to_log: dict[str, bytes] = field(default_factory=dict)  # artifacts for people: config.yaml, code.txt
    axes: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)  # `plat.store.run_directory.description` of it
    damage: Damage | None = None  # of the config or the history

    @property
    def done(self) -> bool:
        return self.status == "FINISHED"

    @property
    def foreign(self) -> bool:
        """Return True for a run of another tool."""
        return str(self.about.get("meta", {}).get("trainer")) == FOREIGN

    @cached_property
    def measured(self) -> bytes:
        """The content of the run's artifact."""
        tags = {key: value for key, value in self.tags.items() if not key.startswith(("plat.in.", "plat.study."))}
        facts = {"tags": tags, "axes": self.axes, "status": self.status, "run": self.about}
        return encode(facts, self.metrics, self.tables)

    @cached_property
    def sha256(self) -> str:
        """The hash of the run's artifact."""
        return sha256_of(self.measured)

    def mirror(self, curves: bool = True) -> list[Point]:
        """Return the values for MLflow's tables, by metric and step; without `curves`, the last value of each metric.

        Long curves are thinned evenly to MOST_MIRRORED values in all; the last value of each metric is always there.
        """
        by_key: dict[str, list[Metric]] = {}
        for row in sorted(self.metrics):
            by_key.setdefault(metric_key(row.key), []).append(row)
        share = max(1, MOST_MIRRORED // max(1, len(by_key))) if curves else 1
        points = []
        for key, rows in by_key.items():
            last, kept = len(rows) - 1, min(share, len(rows))
            places = [last] if kept == 1 else [number * last // (kept - 1) for number in range(kept)]
            points += [Point(key, rows[at].step, float(rows[at].value), millis(rows[at].time) or 0) for at in places]
        return points


def experiment_name(paper: str | None, file: str | None, scale: str | None) -> str:
    """Return the name of an MLflow experiment: paper (else file, else "plat") and scale, such as `mypaper · laptop`."""
    return " · ".join(part for part in (paper or file or "plat", scale) if part)


def signature(folder: str) -> str | None:
    """Return a cheap fingerprint of a run directory from sizes and times of its files, None if it has no meta.json.

    For a done run only meta.json and result.json count. Such a run changes no more, except that its meta.json lists the
    experiment files that ask for it.
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
    """Return True if the run has an attempt or a result."""
    return paths.result.exists() or bool(paths.attempts())


def _stat(path: str | Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def read_record(paths: RunPaths, wanted_by: Sequence[str] = ()) -> RunRecord | None:
    """Return the record of a run directory, None if its meta.json or config.yaml is missing or unreadable.

    A run that ends during the read is read again: else its result would stand beside a history without its end.

    wanted_by  files that ask for this run in addition to those in meta.json
    """
    while True:
        was_done = paths.result.exists()
        record = _read_once(paths, wanted_by)
        if was_done or not paths.result.exists():
            return record


def _read_once(paths: RunPaths, wanted_by: Sequence[str]) -> RunRecord | None:
    mark = signature(str(paths.root))  # first, so that the next import sees files that change during the read
    meta = run_files.load_meta(paths)
    if mark is None or meta is None:
        return None
    try:
        config = run_files.load_config(paths, meta)
    except HomeError:
        return None
    files = list(dict.fromkeys(clean_key(name) for name in [*meta.get("experiments", []), *wanted_by]))
    wrong_config = run_files.config_damage(meta, config)
    trusted = {} if wrong_config else config
    metrics, tables = run_history(paths)
    wrong_history = damage(paths, metrics, tables)
    result = run_files.read_result(paths)
    attempts = paths.attempts()
    ended = _ended(result, attempts)
    status = status_of(str(ended.get("outcome", "")))
    end = None if status == "RUNNING" else millis(ended.get("time"))
    times = [millis(meta.get("created")), *(millis(row.time) for row in metrics[:1]), end]
    started = [run_files.read_attempt_meta(attempt) for attempt in attempts]
    newest = started[-1] if started else {}
    number = (result or {}).get("attempt") or (attempts[-1].number if attempts else 0)
    tags = {
        **identity_tags(paths.id, meta, files, number),
        **code_tags(meta, started),
        **result_tags(meta, ended, newest.get("facts")),
    }
    return RunRecord(
        id=paths.id,
        # MLflow's page cuts names: the seed, which always differs, comes first
        name=re.sub(r"^(.+)-s([^-]+)(-[0-9a-f]{8})$", r"seed\2-\1\3", tags["plat.name"]),
        experiment=experiment_name(
            meta.get("paper"), files[0] if files else None, meta.get("scale") or trusted.get("scale")
        ),
        files=files,
        signature=mark,
        status=status,
        start=min((time for time in times if time is not None), default=0),
        end=end,
        params={clean_key(key): cut(masked(text(value)), PARAM_LENGTH) for key, value in flatten(trusted).items()},
        tags={clean_key(key): cut(value, TAG_LENGTH) for key, value in tags.items()},
        metrics=metrics,
        tables=tables,
        files_to_log=_files(paths, with_config=not wrong_config),
        axes=dict(meta.get("axes") or {}),
        about=_about(paths, meta),
        damage=wrong_config or wrong_history,
    )


def _ended(result: dict[str, Any] | None, attempts: Sequence[AttemptPaths]) -> dict[str, Any]:
    """Return the content of result.json, else of outcome.json of the newest attempt; {} until the run has ended."""
    if result is not None:
        return result
    ended = (run_files.read_outcome(attempts[-1]) if attempts else None) or {}
    return {} if is_result(str(ended.get("outcome", ""))) else ended  # only result.json makes a run done


def _about(paths: RunPaths, meta: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a run without the files and searches that ask for it, of which more may come."""
    try:
        about = describe(paths, meta)
    except (OSError, ValueError):  # the damage is told by `damage`
        return {"meta": dict(meta)}
    about["meta"] = {key: value for key, value in about["meta"].items() if key not in ("experiments", "studies")}
    return about


def _files(paths: RunPaths, *, with_config: bool) -> dict[str, bytes]:
    """Return name -> content of the files that are logged for people to see: config and code."""
    files = {}
    for path in [*([paths.config] if with_config else []), paths.code]:
        with suppress(OSError):  # a file that cannot be read is left out, so that the rest of the run is still stored
            files[path.name] = read_bytes(path)
    return files


def without_history(record: RunRecord) -> RunRecord:
    """Return the record of a damaged run without metrics and tables; a done run gets the outcome "damaged".

    Its signature matches no run directory, so that every import compares and reports the run again.
    """
    kept = replace(record, signature=DAMAGED, metrics=[], tables=[])
    if not record.done:
        return kept
    tags = record.tags | {"plat.outcome": DAMAGED, "plat.reason": cut(str(record.damage), TAG_LENGTH)}
    return replace(kept, status="FAILED", tags=tags)
