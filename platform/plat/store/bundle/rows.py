"""The runs of a bundle, made from its rows; every value is checked for the type that plat writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import BundleError
from plat.outcomes import is_failure, is_result
from plat.plain_files import parse_json
from plat.store.bundle.format import EXPORT_AGAIN, Bundle
from plat.store.bundle.run import BundledRun, config_in, config_of
from plat.store.run_directory.files import recomputed_id
from plat.store.run_directory.history import Metric, Table
from plat.store.run_directory.types import (
    ATTEMPT_META,
    META,
    OUTCOME,
    RESULT,
    is_attempt_number,
    is_time,
    wrong_type,
)
from plat.text import forbidden_character

if TYPE_CHECKING:
    import pyarrow

_RUN_ID = re.compile(r"[0-9a-f]{8,64}")


def runs_of(bundle: Bundle, folder: Path) -> list[BundledRun]:
    """The runs of a bundle; BundleError when a row cannot be a run."""
    rows: dict[str, dict[str, list[Any]]] = {}
    for kind in ("metrics", "tables"):
        try:
            rows[kind] = _by_run(bundle.tables[kind], _MAKERS[kind])
        except (ValueError, TypeError, RecursionError) as error:
            raise BundleError(
                f"the {kind} of the bundle cannot be read: {error}", where=str(folder), mend=EXPORT_AGAIN
            ) from error
    runs: dict[str, BundledRun] = {}
    for row in bundle.tables["runs"].to_pylist():
        try:
            run = _run(row, rows["metrics"], rows["tables"])
            if run.id in runs:
                raise ValueError("it is there twice")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BundleError(
                f"run {row.get('run_id')!r} of the bundle cannot be read: {error}", where=str(folder), mend=EXPORT_AGAIN
            ) from error
        runs[run.id] = run
    strangers = sorted({*rows["metrics"], *rows["tables"]} - runs.keys())
    if strangers:
        raise BundleError(
            f"the bundle has values of a run that it does not have: {strangers[0]!r}",
            where=str(folder),
            mend=EXPORT_AGAIN,
        )
    return list(runs.values())


def _run(row: dict[str, Any], metrics: dict[str, list[Metric]], tables: dict[str, list[Table]]) -> BundledRun:
    """The run of a row, with every value of the type that plat writes; ValueError says what is not."""
    run_id = str(row["run_id"])
    run = BundledRun(
        meta=_object(row["meta"]),
        config=row["config"],
        code=row["code"],
        diff=row["diff"],
        diff_sha256=row["code_diff_sha256"],
        result=None if row["result"] is None else _object(row["result"]),
        attempt=row["attempt"],
        attempt_meta=_object(row["attempt_meta"]),
        attempt_outcome=_object(row["attempt_outcome"]),
        metrics=metrics.get(run_id, []),
        tables=tables.get(run_id, []),
    )
    if not _RUN_ID.fullmatch(run_id) or run.id != run_id:
        raise ValueError("its id is not a run's")
    _check_types(run)
    if run.meta["config_sha256"] != config_of(run):
        raise ValueError("its config is not the one its meta.json names")
    if recomputed_id(run.meta, config_in(run)) not in (None, run.id):
        raise ValueError("its config, versions and base model are not those that its id stands for: it was edited")
    for kind, rows in (("metric", run.metrics), ("table", run.tables)):
        if len(rows) != row[f"{kind}_rows"]:
            raise ValueError(f"it has {len(rows)} rows of {kind}s instead of {row[f'{kind}_rows']}")
    return run


def _check_types(run: BundledRun) -> None:
    """ValueError unless all that is written into the run's JSON files is of its type, and complete."""
    parts = (
        ("meta.json", run.meta, META, ("id", "name", "trainer", "axes", "experiments", "config_sha256")),
        ("result.json", run.result or {}, RESULT, ("outcome", "attempt", "time") if run.result is not None else ()),
        ("attempt.json", run.attempt_meta, ATTEMPT_META, ()),
        ("outcome.json", run.attempt_outcome, OUTCOME, ("outcome",)),
    )
    for name, values, types, needed in parts:
        missing = [key for key in needed if key not in values]
        problem = f"it has no {missing[0]}" if missing else wrong_type(values, types)
        if problem:
            raise ValueError(f"its {name} is damaged: {problem}")
    texts = [run.meta.get(key) for key in ("name", "trainer", "paper", "scale")] + run.meta["experiments"]
    for text in [*texts, *run.meta["axes"], *run.meta["axes"].values()]:
        if isinstance(text, str) and (forbidden_character(text) or "\n" in text):
            raise ValueError(f"its meta.json is damaged: {text[:40]!r} is no name")
    climbing = [name for name in run.meta["experiments"] if name.startswith(".") or "/" in name or "\\" in name]
    if climbing:
        raise ValueError(f"its meta.json is damaged: {climbing[0][:40]!r} is no experiment file")
    if not is_attempt_number(run.attempt):
        raise ValueError("the number of its attempt is not one")
    if run.result is None:
        if not is_failure(run.outcome):
            raise ValueError("it has neither a result nor failed")
    elif not is_result(run.outcome) or run.result["attempt"] != run.attempt:
        raise ValueError("its result is not that of its attempt")


def _object(text: str) -> dict[str, Any]:
    value = parse_json(text)
    if not isinstance(value, dict):
        raise ValueError("a JSON object is expected")
    return value


def _by_run(table: pyarrow.Table, make: Callable[[list[Any]], Any]) -> dict[str, list[Any]]:
    """What `make` gives for each row without its run id, by run id, in the order of the rows."""
    rows: dict[str, list[Any]] = {}
    run_ids, *columns = (column.to_pylist() for column in table.columns)
    for run_id, *row in zip(run_ids, *columns, strict=True):
        if run_id is None or None in row:
            raise ValueError(f"a value of run {run_id!r} is missing")
        rows.setdefault(run_id, []).append(make(row))
    for run_id, items in rows.items():
        if len({item[:2] for item in items}) < len(items):
            raise ValueError(f"run {run_id!r} has two values for one name and step")
    return rows


def _metric(row: list[Any]) -> Metric:
    metric = Metric(*row)
    _check_place(metric.key, metric.step)
    if not is_time(metric.time):
        raise ValueError(f"{metric.key} at step {metric.step} has no time")
    return metric


def _check_place(name: str, step: int) -> None:
    """ValueError unless this can be the name and the step of a value: stores make paths of names."""
    if not name or forbidden_character(name) or "\n" in name or name.startswith("/") or ".." in name.split("/"):
        raise ValueError(f"{name[:40]!r} is no name")
    if step < 0:
        raise ValueError(f"{name} is at step {step}")


def _table(row: list[Any]) -> Table:
    name, step, time, data = row
    _check_place(name, step)
    if not is_time(time):
        raise ValueError(f"table {name} at step {step} has no time")
    return Table(name, step, parse_json(data), time)


_MAKERS: dict[str, Callable[[list[Any]], Any]] = {"metrics": _metric, "tables": _table}
