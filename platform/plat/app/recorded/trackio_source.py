"""Read runs of Trackio: a project's SQLite database, or the Parquet files that Trackio exports of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from plat.app.recorded.foreign_run import ForeignRun, Read, flat_values, merged
from plat.app.recorded.metric_choice import Choice
from plat.app.recorded.typed_table import parquet_rows
from plat.errors import SpecError
from plat.plain_files import parse_json
from plat.trainer.script.readers.objects import Logged
from plat.trainer.script.readers.trackio import database_rows, numbers_in, values_of

OF_TRACKIO = ("_Username", "_Created", "_Group")  # keys that Trackio adds to a config
# Further tables of a project among exported Parquet files: only their metrics are runs.
OTHERS = ("_system", "_configs", "_traces", "_artifacts", "_artifact_versions", "_artifact_aliases", "_run_artifacts")
FIX = (
    "name PROJECT.db of TRACKIO_DIR (by default ~/.cache/huggingface/trackio), a folder of them, or exported *.parquet"
)


class _Row(NamedTuple):
    """A row of the metrics or the configs of a project. `run`: its id, or its name, by which older versions know it."""

    run: str
    name: str
    time: str
    step: int
    values: Mapping[str, Any]


def read_trackio(sources: Sequence[str], choice: Choice) -> Read:
    """Return the runs of projects, in the order of their first metrics, and no notes.

    The values of a run are its config and its `project`. Trackio does not say whether a run has finished.

    Raises SpecError if there is no project, or if one cannot be read.
    """
    found: list[tuple[str, ForeignRun]] = []
    for path in dict.fromkeys(path for source in sources for path in _projects(Path(source))):
        metrics, configs = (_of_database if path.suffix == ".db" else _of_parquet)(path)
        found += _runs(path, metrics, configs)
    return [run for _, run in sorted(found, key=lambda each: each[0])], []


def _projects(source: Path) -> list[Path]:
    if not source.exists():
        raise SpecError("there is no such file or folder", where=str(source), fix=FIX)
    if not source.is_dir():
        return [source]
    found = sorted(source.glob("*.db")) or sorted(
        path for path in source.rglob("*.parquet") if path.parent.name != "aux" and not path.stem.endswith(OTHERS)
    )
    if not found:
        raise SpecError("the folder has no project of Trackio", where=str(source), fix=FIX)
    return found


def _runs(path: Path, metrics: list[_Row], configs: list[_Row]) -> Iterator[tuple[str, ForeignRun]]:
    """Yield the time of its first metrics, and each run."""
    project = path.parent.name if path.stem == "metrics" else path.stem
    about = {row.run: row.values for row in configs}
    rows: dict[str, list[_Row]] = {}
    for row in sorted(metrics, key=lambda row: row.time):  # of two values of a step the later counts
        rows.setdefault(row.run, []).append(row)
    names = [of_run[-1].name for of_run in rows.values()]
    for run, of_run in rows.items():
        history, replaced = merged(Logged(row.step, numbers_in(row.values), 0.0) for row in of_run)
        config = {key: value for key, value in about.get(run, {}).items() if key not in OF_TRACKIO}
        name = of_run[-1].name if names.count(of_run[-1].name) == 1 else f"{of_run[-1].name} ({run})"
        values = flat_values({"project": project, **config})
        yield of_run[0].time, ForeignRun(name, values, history, str(path), replaced=replaced)


def _of_database(path: Path) -> tuple[list[_Row], list[_Row]]:
    """Return the metrics and the configs in a database."""
    try:
        metrics, configs = database_rows(path, "metrics"), database_rows(path, "configs")
    except sqlite3.Error as error:
        raise SpecError(f"the project cannot be read: {error}", where=str(path), fix=FIX) from None
    return [_row(path, row, "metrics") for row in metrics], [_row(path, row, "config") for row in configs]


def _of_parquet(path: Path) -> tuple[list[_Row], list[_Row]]:
    """Return the metrics in an exported file and the configs in the file beside it."""
    beside = (path.with_name(f"{path.stem}_configs.parquet"), path.parent / "aux" / "configs.parquet")
    configs = next((parquet_rows(other) for other in beside if other.is_file()), [])
    return [_row(path, row, "") for row in parquet_rows(path)], [_row(path, row, "") for row in configs]


def _row(path: Path, row: Mapping[str, Any], column: str) -> _Row:
    """Return a row. `column`: the one with the values, as JSON; "": they are columns."""
    name = row.get("run_name")
    run, step, time = row.get("run_id") or name, row.get("step", 0), row.get("timestamp") or row.get("created_at")
    if not isinstance(name, str) or not isinstance(run, str) or not isinstance(time, str):
        raise SpecError("the table has no columns run_name and timestamp of Trackio", where=str(path), fix=FIX)
    if not isinstance(step, int) or step < 0:
        what = f"the step is {step!r:.40} in a row of the run {name}, which is no whole number of at least 0"
        raise SpecError(what, where=str(path), fix="take another copy")
    if not column:
        return _Row(run, name, time, step, values_of(row))
    try:
        values = parse_json(row[column])
    except (ValueError, KeyError, TypeError) as error:
        what = f"row {row.get('id')} of the run {name} is no JSON: {error}"
        raise SpecError(what, where=str(path), fix="take another copy") from None
    if not isinstance(values, dict):
        raise SpecError(f"row {row.get('id')} of the run {name} is no object", where=str(path), fix="take another copy")
    return _Row(run, name, time, step, values)
