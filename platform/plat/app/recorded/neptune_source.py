"""Read runs of Neptune from the Parquet files of its exporter (`neptune-exporter`), which have a row for each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from plat.app.recorded.foreign_run import ForeignRun, Read, flat_values, merged
from plat.app.recorded.metric_choice import Choice
from plat.app.recorded.typed_table import parquet_batches
from plat.errors import SpecError
from plat.trainer.script.readers.objects import Logged
from plat.units import counted

FIX = "name the folder that `neptune-exporter export --data-path` wrote, or its Parquet files"
KINDS = {"int": "int_value", "float": "float_value", "string": "string_value", "bool": "bool_value"}  # of single values
KINDS |= {"datetime": "datetime_value", "string_set": "string_set_value"}
SERIES = "float_series"
COLUMNS = ("project_id", "run_id", "attribute_path", "attribute_type", "step", "timestamp", *KINDS.values())
OF_NEPTUNE = ("sys/", "monitoring/", "runtime/")  # what Neptune itself writes about a run and its machine
PARENT = "sys/forking/parent"


@dataclass
class _Run:
    """What the rows of one run say: `points` are (step, time in milliseconds, metric, number)."""

    place: str
    values: dict[str, Any] = field(default_factory=dict)
    points: list[tuple[int, int, str, float]] = field(default_factory=list)


def read_neptune(sources: Sequence[str], choice: Choice) -> Read:
    """Return the runs of exported files, in the order of their creation, and sentences on forks.

    The values of a run are its single values, with dots for slashes, and its `project`. A run that Neptune calls
    failed or running has not finished.

    Raises SpecError if there is no file of the exporter, if one cannot be read, or if a step is no whole number.
    """
    runs: dict[tuple[str, str], _Run] = {}
    for path in dict.fromkeys(path for source in sources for path in _files(Path(source))):
        _add(path, runs, set(choice.metrics))
    forks = [run for (_, run), found in runs.items() if found.values.get(PARENT)]
    notes = []
    if forks:
        what = f"{counted(len(forks), 'run')} continued from another run, such as {forks[0]}"
        notes.append(f"{what}: steps before the fork are those that the exporter wrote")
    ordered = sorted(runs.items(), key=lambda each: (str(each[1].values.get("sys/creation_time", "")), each[0]))
    return [_made(project, run, found) for (project, run), found in ordered], notes


def _files(source: Path) -> list[Path]:
    if not source.exists():
        raise SpecError("there is no such file or folder", where=str(source), fix=FIX)
    found = sorted(source.rglob("*.parquet")) if source.is_dir() else [source]
    if not found:
        raise SpecError("the folder has no Parquet file", where=str(source), fix=FIX)
    return found


def _add(path: Path, runs: dict[tuple[str, str], _Run], asked: set[str]) -> None:
    """Add the rows of a file. `asked`: metrics that the user named, those of the machine among them."""
    for row in _rows(path):
        run = runs.setdefault((row["project_id"], row["run_id"]), _Run(str(path)))
        name, kind = row["attribute_path"], row["attribute_type"]
        if kind in KINDS:
            value = row[KINDS[kind]]
            run.values[name] = value.isoformat() if kind == "datetime" and value is not None else value
        elif kind == SERIES and row["float_value"] is not None:
            if name in asked or not name.startswith(OF_NEPTUNE):
                time = row["timestamp"]
                at = 0 if time is None else round(time.timestamp() * 1000)
                run.points.append((_step(row["step"], name, path), at, name, row["float_value"]))


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    for columns, batch in parquet_batches(path, COLUMNS):
        if lacking := [name for name in COLUMNS if name not in columns]:
            what = f"the file is none of neptune-exporter: it has no column {lacking[0]}"
            raise SpecError(what, where=str(path), fix=FIX)
        yield from batch


def _step(value: Any, name: str, path: Path) -> int:
    if not isinstance(value, Decimal | int) or value != int(value) or value < 0:
        what = f"the step of {name} is {value}, which is no whole number of at least 0"
        raise SpecError(what, where=str(path), fix="leave the metric out: --metrics A,B names the others")
    return int(value)


def _made(project: str, run: str, found: _Run) -> ForeignRun:
    points = sorted(found.points, key=lambda point: point[1])  # of two values of a step the later counts
    history, replaced = merged(Logged(step, {name: value}, 0.0) for step, _, name, value in points)
    own = {key.replace("/", "."): value for key, value in found.values.items() if not key.startswith(OF_NEPTUNE)}
    called = found.values.get("sys/name")
    name = f"{called} ({run})" if called and called != run else run
    is_done = not found.values.get("sys/failed") and str(found.values.get("sys/state")).lower() not in STILL
    return ForeignRun(name, flat_values({"project": project, **own}), history, found.place, is_done, replaced)


STILL = ("running", "active")  # states of a run that has not ended
