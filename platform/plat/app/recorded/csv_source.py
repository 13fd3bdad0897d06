"""Read runs from CSV files: one long file with all runs, or a file for each run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from plat.app.recorded.foreign_run import ForeignRun, History, merged, text_values
from plat.app.recorded.metric_choice import Choice, texts_of, values_of
from plat.errors import RunError, SpecError
from plat.plain_files import read_text
from plat.suggest import suggest
from plat.trainer.script.readers.csv_metrics import CsvMetrics
from plat.trainer.script.readers.csv_table import Row
from plat.trainer.script.readers.objects import Logged


def read_csv(sources: Sequence[str], choice: Choice) -> list[ForeignRun]:
    """Return the runs of CSV files. A single file has all runs; of several files, or a folder, each is a run.

    Raises SpecError if there is no file, or if one cannot be read.
    """
    files = [path for source in sources for path in _files(Path(source))]
    if len(sources) == 1 and Path(sources[0]).is_file():
        return _runs_of_long(files[0], choice)
    return [_run_of(path, choice) for path in files]


def _files(source: Path) -> list[Path]:
    if not source.exists():
        raise SpecError("there is no such file or folder", where=str(source), fix="name CSV files, or a folder of them")
    found = sorted(source.rglob("*.csv")) if source.is_dir() else [source]
    if not found:
        raise SpecError("the folder has no CSV file", where=str(source), fix="name CSV files, or a folder of them")
    return found


def _run_of(path: Path, choice: Choice) -> ForeignRun:
    """Return the run of one file. Its values come from its path and from config files beside it."""
    metrics, rows = _rows(path, choice)
    history, replaced = merged(_logged(path, metrics, rows))
    place = path.with_suffix("")
    values, texts = values_of(place, path.parent), texts_of(place)
    return ForeignRun(str(path), values, history, str(path), replaced=replaced, spelled=texts)


def _runs_of_long(path: Path, choice: Choice) -> list[ForeignRun]:
    """Return the runs of one long file: rows with the same values and seed are one run."""
    metrics, rows = _rows(path, choice)
    keys = _value_columns(path, metrics, choice)
    metrics = metrics.again([*keys, *metrics.left_out])
    metrics.learn(rows)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.cells.get(key, "") for key in keys), []).append(row)
    runs = []
    for texts, group in groups.items():
        values = dict(zip(keys, texts, strict=True))
        name = ", ".join(f"{key}={text}" for key, text in values.items())
        place = f"{path}:{group[0].line}"
        history = _checked(path, group, metrics.again(metrics.left_out))
        runs.append(ForeignRun(name, text_values(values), history, place, spelled=values))
    return runs


def _checked(path: Path, rows: list[Row], metrics: CsvMetrics) -> History:
    """Return the metrics of one run of a long file. Raises SpecError if a metric has two numbers at one step."""
    history: History = {}
    lines: dict[int, int] = {}
    for row, logged in zip(rows, _logged(path, metrics, rows), strict=True):
        before = history.setdefault(logged.step, {})
        if not before.keys().isdisjoint(logged.metrics):
            what = f"lines {lines[logged.step]} and {row.line} have the same values and the same step {logged.step}"
            fix = "name the column that tells the runs apart: --seed KEY, or --axes A,B"
            raise SpecError(what, where=f"{path}:{row.line}", fix=fix)
        before.update(logged.metrics)
        lines[logged.step] = row.line
    return {step: found for step, found in history.items() if found}


def _value_columns(path: Path, metrics: CsvMetrics, choice: Choice) -> list[str]:
    """Return the columns that hold values: axes and seed, or without --axes all that are no metrics."""
    header = metrics.table.header
    others = [name for name in header if name not in metrics.counters()[:1]]
    for name in [*choice.axes, *choice.metrics]:
        if name not in header:
            raise SpecError(f"there is no column {name!r}", where=f"{path}:1", fix=suggest(name, others, "columns"))
    if choice.axes:
        return [name for name in others if name in choice.axes or name == choice.seed_key(others)]
    if choice.metrics:
        return [name for name in others if name not in choice.metrics]
    fix = f"name the columns of axes: --axes A,B, or those of metrics: --metrics M (columns: {', '.join(others)})"
    raise SpecError("which columns are axes, and which are metrics?", where=f"{path}:1", fix=fix)


def _rows(path: Path, choice: Choice) -> tuple[CsvMetrics, list[Row]]:
    """Return the reader of a file and its rows. Raises SpecError for an unreadable file and for a row of odd length."""
    fix = "write a header line, and lines with as many cells, separated by commas"
    metrics = CsvMetrics(str(path), choice.step, _refuse)
    try:
        rows = list(metrics.table.rows(read_text(path), is_last=True))
    except (OSError, ValueError) as error:
        raise SpecError(f"the file cannot be read: {error}", where=str(path), fix=fix) from None
    if not rows:
        raise SpecError("the file has no rows", where=str(path), fix=fix)
    if choice.step and not metrics.counters():
        fix = suggest(choice.step, metrics.table.header, "columns")
        raise SpecError(f"there is no column {choice.step!r}", where=f"{path}:1", fix=fix)
    metrics.left_out |= set(metrics.table.header) - {*choice.metrics} if choice.metrics else set()
    return metrics, rows


def _logged(path: Path, metrics: CsvMetrics, rows: list[Row]) -> Iterator[Logged]:
    """Yield what each row has. Raises SpecError for a step that is no whole number, and a column of several types."""
    try:
        yield from metrics.of_rows(rows, keeps_empty=True)
    except RunError as error:
        fix = "correct it, or name another column with --step"
        raise SpecError(error.what.replace("the script logged", "there is"), where=error.where, fix=fix) from None


def _refuse(what: str, where: str, fix: str) -> None:
    raise SpecError(what, where=where, fix=fix)
