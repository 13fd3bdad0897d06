"""Read the results in a bundle as frames, without a home or a store, for reports with a bundle beside them.

Every file is checked against the manifest first (BundleError). The frames hold what a report would read from a store
after an import of the bundle, so that equal runs give equal reports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.characters import forbidden_character
from plat.plain_files import parse_json
from plat.store.bundle.format import Bundle, damaged
from plat.store.bundle.reading import read_bundle, read_manifest
from plat.store.bundle.run import BundledRun, config_in, config_of
from plat.store.mlflow.frames import Frames
from plat.store.mlflow.run_tags import clean_key, result_tags
from plat.store.run_directory.history import Metric, Table
from plat.store.run_directory.run_files import recomputed_id
from plat.store.run_directory.types import ATTEMPT_META, META, OUTCOME, RESULT, is_attempt_number, is_time, wrong_type
from plat.words.outcomes import is_failure, is_result

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow


@dataclass(frozen=True)
class BundleResults:
    """The results in a bundle."""

    metas: dict[str, dict[str, Any]]  # run id -> content of its meta.json
    configs: dict[str, str]  # run id -> its config as YAML text
    frames: Frames  # of all runs in the bundle; without the columns axis.* and param.*
    experiments: dict[str, list[str]]  # name of each experiment file -> ids of its runs
    overrides: tuple[str, ...]  # overrides of the command line at the export


def experiments_in(folder: Path) -> list[str]:
    """Return the names of a bundle's experiment files from its manifest; raises BundleError if that is damaged."""
    return [str(experiment["name"]) for experiment in read_manifest(folder)["experiments"]]


def runs_in(folder: Path) -> set[str]:
    """Return the ids of a bundle's runs from its manifest; raises BundleError if that is damaged."""
    return {str(run) for experiment in read_manifest(folder)["experiments"] for run in experiment["runs"]}


def read_results(folder: Path, metrics: Collection[str] | None = None, tables: bool = True) -> BundleResults:
    """Return the results in a bundle; raises BundleError if it is damaged.

    metrics  keys of the metrics to read (default: all)
    tables   read the logged tables
    """
    bundle = read_bundle(folder)
    try:
        rows = bundle.tables["runs"].to_pylist()
        metas = {str(row["run_id"]): json.loads(row["meta"]) for row in rows}
        frames = Frames(_runs(rows, metas), _metrics(bundle, metrics), _tables(bundle, tables))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(f"the bundle cannot be read: {error}", folder) from error
    return BundleResults(
        metas,
        {str(row["run_id"]): row["config"] for row in rows},
        frames,
        {str(experiment["name"]): list(experiment["runs"]) for experiment in bundle.experiments},
        tuple(bundle.overrides),
    )


def _runs(rows: list[dict[str, Any]], metas: dict[str, dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    facts = []
    for row in sorted(rows, key=lambda row: str(row["run_id"])):
        run_id = str(row["run_id"])
        ended = json.loads(row["result"] or row["attempt_outcome"])
        tags = result_tags(metas[run_id], ended, json.loads(row["attempt_meta"]).get("facts"))
        line = {"run_id": run_id, "name": row["name"], "mlflow_id": "", "outcome": row["outcome"]}
        facts.append(line | {"attempt": row["attempt"]} | {f"tag.{clean_key(key)}": tags[key] for key in tags})
    return pd.DataFrame(facts, dtype=object)


def _metrics(bundle: Bundle, wanted: Collection[str] | None) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.compute as pc

    table = bundle.tables["metrics"].select(["run_id", "key", "step", "value"])
    if wanted is not None:
        table = table.filter(pc.is_in(table["key"], value_set=pa.array(sorted(wanted), pa.string())))
    ordered: pd.DataFrame = table.sort_by([(name, "ascending") for name in ("run_id", "key", "step")]).to_pandas()
    return ordered


def _tables(bundle: Bundle, wanted: bool) -> pd.DataFrame:
    import pandas as pd

    names = ["run_id", "name", "step", "data"]
    table = bundle.tables["tables"].select(names)
    rows = table.to_pylist() if wanted else []
    rows.sort(key=lambda row: (row["run_id"], row["name"], row["step"]))
    return pd.DataFrame([{**row, "data": json.loads(row["data"])} for row in rows], columns=names)


# Build the runs of a bundle from its rows, with every value checked for the type that plat writes.

_RUN_ID = re.compile(r"[0-9a-f]{8,64}")


def runs_of(bundle: Bundle, folder: Path) -> list[BundledRun]:
    """Return the runs of a bundle. `folder` is only named in errors.

    Raises BundleError if a row is invalid, if a run is there twice, or if a metric or table is of a run without a row.
    """
    rows: dict[str, dict[str, list[Any]]] = {}
    for kind in ("metrics", "tables"):
        try:
            rows[kind] = _by_run(bundle.tables[kind], _MAKERS[kind])
        except (ValueError, TypeError, RecursionError) as error:
            raise damaged(f"the {kind} of the bundle cannot be read: {error}", folder) from error
    runs: dict[str, BundledRun] = {}
    for row in bundle.tables["runs"].to_pylist():
        try:
            run = _run(row, rows["metrics"], rows["tables"])
            if run.id in runs:
                raise ValueError("it is there twice")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise damaged(f"run {row.get('run_id')!r} of the bundle cannot be read: {error}", folder) from error
        runs[run.id] = run
    strangers = sorted({*rows["metrics"], *rows["tables"]} - runs.keys())
    if strangers:
        raise damaged(f"the bundle has values of a run that is not among its runs: {strangers[0]!r}", folder)
    return list(runs.values())


def _run(row: dict[str, Any], metrics: dict[str, list[Metric]], tables: dict[str, list[Table]]) -> BundledRun:
    """Return the run of a row; raises ValueError if a type, a hash, the run id or a number of rows is wrong."""
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
        raise ValueError("its id is not a valid run id")
    _check_types(run)
    if run.meta["config_sha256"] != config_of(run):
        raise ValueError("its config does not match the hash in its meta.json")
    if recomputed_id(run.meta, config_in(run)) not in (None, run.id):
        raise ValueError("its id does not match its config, versions and base model: it was edited")
    for kind, rows in (("metric", run.metrics), ("table", run.tables)):
        if len(rows) != row[f"{kind}_rows"]:
            raise ValueError(f"it has {len(rows)} rows of {kind}s instead of {row[f'{kind}_rows']}")
    return run


def _check_types(run: BundledRun) -> None:
    """Raise ValueError unless the content of the run's JSON files is complete and of the right types."""
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
        raise ValueError("its attempt number is not valid")
    if run.result is None:
        if not is_failure(run.outcome):
            raise ValueError("it has no result and did not fail")
    elif not is_result(run.outcome) or run.result["attempt"] != run.attempt:
        raise ValueError("its result does not belong to its attempt")


def _object(text: str) -> dict[str, Any]:
    value = parse_json(text)
    if not isinstance(value, dict):
        raise ValueError("a JSON object is expected")
    return value


def _by_run(table: pyarrow.Table, make: Callable[[list[Any]], Any]) -> dict[str, list[Any]]:
    """Return run id -> objects that `make` builds from its rows, in order.

    Raises ValueError if a value is missing, or a run has two values for one name and step."""
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
    _check(metric.key, metric.key, metric.step, metric.time)
    return metric


def _check(what: str, name: str, step: int, time: Any) -> None:
    """Raise ValueError unless name, step and time of a value are valid; a name must be safe as a path in a store."""
    if not name or forbidden_character(name) or "\n" in name or name.startswith("/") or ".." in name.split("/"):
        raise ValueError(f"{name[:40]!r} is no name")
    if step < 0:
        raise ValueError(f"{name} is at step {step}")
    if not is_time(time):
        raise ValueError(f"{what} at step {step} has no time")


def _table(row: list[Any]) -> Table:
    name, step, time, data = row
    _check(f"table {name}", name, step, time)
    return Table(name, step, parse_json(data), time)


_MAKERS: dict[str, Callable[[list[Any]], Any]] = {"metrics": _metric, "tables": _table}
