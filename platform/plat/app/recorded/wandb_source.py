"""Read runs of Weights & Biases: logs of offline runs, or CSV files that its page exports.

The first column of a chart's CSV is the step, the others are `RUN - METRIC`, each with its `__MIN` and `__MAX`. That of
the table of runs has a line for each run, with its name, its state and its config.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plat.app.recorded.foreign_run import ForeignRun, Read, flat_values, merged, text_values
from plat.app.recorded.metric_choice import Choice
from plat.errors import SpecError
from plat.extras import require_extra
from plat.plain_files import read_text
from plat.trainer.script.readers.objects import Logged
from plat.trainer.script.readers.wandb import PATTERN, WandbLog, history_of, parsed


@dataclass
class _Run:
    """What the logs of one run say, in the order of the records."""

    place: str
    name: str = ""
    start: float = 0.0
    config: dict[str, Any] = field(default_factory=dict)
    logged: list[Logged] = field(default_factory=list)
    finished: bool = False


def read_wandb(sources: Sequence[str], choice: Choice) -> Read:
    """Return the runs of logs of offline runs, in the order of their start, or of exported CSV files; and no notes.

    A run with several logs, because it was resumed, is one run. Raises SpecError if there is no log, if one is damaged,
    or if the package wandb is missing.
    """
    if all(source.endswith(".csv") for source in sources):
        return read_exports([Path(source) for source in sources]), []
    require_extra("wandb", "plat import wandb", "the command line")
    runs: dict[str, _Run] = {}
    for path in dict.fromkeys(path.resolve() for source in sources for path in _logs(Path(source))):
        _read(path, runs)
    found = []
    for run in sorted(runs.values(), key=lambda run: (run.start, run.name)):
        history, replaced = merged(run.logged)
        found.append(ForeignRun(run.name, flat_values(run.config), history, run.place, run.finished, replaced))
    return found, []


def _logs(source: Path) -> list[Path]:
    fix = "name a folder with offline-run-*/run-ID.wandb, or CSV files of W&B's page"
    if not source.exists():
        raise SpecError("there is no such file or folder", where=str(source), fix=fix)
    found = sorted(source.rglob(PATTERN)) if source.is_dir() else [source]
    if not found:
        raise SpecError("the folder has no log of a W&B run", where=str(source), fix=fix)
    return found


def _read(path: Path, runs: dict[str, _Run]) -> None:
    """Add what one log says to the run that it names."""
    run = _Run(str(path), path.stem)
    for record in WandbLog(path).records():
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run = runs.setdefault(record.run.run_id, run)
            name, start = record.run.display_name, record.run.start_time
            run.name = f"{name} ({record.run.run_id})" if name else record.run.run_id
            run.start = run.start or start.seconds + start.nanos / 1e9
            run.finished = False
            _configure(run.config, record.run.config)
        elif kind == "config":
            _configure(run.config, record.config)
        elif kind == "history":
            run.logged.append(history_of(record.history))
        elif kind == "exit":
            run.finished = record.exit.exit_code == 0
    if not run.start:  # the log ends before it names its run
        runs.setdefault(path.stem, run)


def _configure(config: dict[str, Any], change: Any) -> None:
    for item in change.update:
        *above, key = item.nested_key or [item.key]
        place = config
        for part in above:
            if not isinstance(place.get(part), dict):
                place[part] = {}
            place = place[part]
        place[key] = parsed(item.value_json)
    for item in change.remove:
        config.pop(item.key, None)
    config.pop("_wandb", None)


STEPS = ("Step", "_step", "global_step", "epoch")
OF_A_BAND = ("__MIN", "__MAX")
# Columns of the table of runs that W&B itself fills.
OF_WANDB: tuple[str, ...] = (
    "Name",
    "State",
    "ID",
    "Notes",
    "User",
    "Tags",
    "Created",
    "Runtime",
    "Sweep",
    "Hostname",
    "Description",
)
OF_WANDB += ("Commit", "GitHub", "GPU Count", "GPU Type", "Group", "Job Type", "Start Time", "Updated", "Project")
Curves = dict[str, dict[int, dict[str, float]]]  # run -> step -> metric -> number


def read_exports(files: Sequence[Path]) -> list[ForeignRun]:
    """Return the runs of exported CSV files: charts, and a table of the runs with their values.

    Raises SpecError if a file is none of these, if there is no chart, or if a chart has a run that the table lacks.
    """
    tables = {path: _rows(path) for path in files}
    charts = {path: rows for path, rows in tables.items() if rows[0][0] in STEPS}
    if not charts:
        fix = "export a chart of W&B's page as CSV: its first column is Step"
        raise SpecError("no file is the CSV of a chart", where=str(files[0]), fix=fix)
    about = {name: row for path, rows in tables.items() if path not in charts for name, row in _table(path, rows)}
    curves: Curves = {}
    places: dict[str, str] = {}
    for path, rows in charts.items():
        for name in _add_chart(path, rows, curves, about):
            places.setdefault(name, str(path))
    metrics = {name for curve in curves.values() for row in curve.values() for name in row}
    runs = []
    for name in sorted(curves):
        row = about.get(name, {})
        texts = {key: text for key, text in row.items() if key not in OF_WANDB and key not in metrics}
        finished = row.get("State", "finished").lower() == "finished"
        runs.append(ForeignRun(name, text_values(texts), curves[name], places[name], finished, spelled=texts))
    return runs


def _add_chart(path: Path, rows: list[list[str]], curves: Curves, names: Iterable[str]) -> list[str]:
    """Add the curves of a chart, and return the names of its runs; `names`: those in the table of runs, if any."""
    header, found = rows[0], []
    columns = [(index, title) for index, title in enumerate(header) if index and not title.endswith(OF_A_BAND)]
    for index, title in columns:
        name, metric = _split(path, title, sorted(names, key=len, reverse=True))
        found.append(name)
        for line, cells in enumerate(rows[1:], start=2):
            if index < len(cells) and cells[index]:
                step, value = _number(path, line, cells[0]), _number(path, line, cells[index])
                if step < 0 or step != int(step):
                    what = f"the step is {cells[0]!r}, which is no whole number of at least 0"
                    raise SpecError(what, where=f"{path}:{line}", fix="export the chart with Step as its x axis")
                curves.setdefault(name, {}).setdefault(int(step), {})[metric] = value
    return found


def _split(path: Path, title: str, names: Sequence[str]) -> tuple[str, str]:
    """Return the run and the metric of a column."""
    known = next((name for name in names if title.startswith(f"{name} - ")), "")
    name, dash, metric = (known, " - ", title[len(known) + 3 :]) if known else title.rpartition(" - ")
    if not dash or (names and not known):
        what = f"the column {title!r} names no run" + (" of the table of runs" if names else "")
        raise SpecError(what, where=f"{path}:1", fix="export the chart without groups, and the table with all its runs")
    return name, metric


def _table(path: Path, rows: list[list[str]]) -> list[tuple[str, dict[str, str]]]:
    header = rows[0]
    if "Name" not in header:
        fix = "name the CSV of a chart (first column: Step) or of the table of runs (a column Name)"
        raise SpecError("the file is no CSV of W&B's page", where=f"{path}:1", fix=fix)
    found = [dict(zip(header, cells, strict=False)) for cells in rows[1:]]
    names = [row["Name"] for row in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        what = f"two runs are called {twice!r}, so a chart does not say which is which"
        raise SpecError(what, where=str(path), fix="rename one in W&B, or import the logs of the runs")
    return list(zip(names, found, strict=True))


def _rows(path: Path) -> list[list[str]]:
    fix = "export it again from W&B's page"
    try:
        lines = csv.reader(io.StringIO(read_text(path).removeprefix("\ufeff")))
        rows = [[cell.strip() for cell in cells] for cells in lines if cells]
    except (OSError, ValueError, csv.Error) as error:
        raise SpecError(f"the file cannot be read: {error}", where=str(path), fix=fix) from None
    if not rows:
        raise SpecError("the file is empty", where=str(path), fix=fix)
    return rows


def _number(path: Path, line: int, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SpecError(f"{text!r} is no number", where=f"{path}:{line}", fix="export it again") from None
