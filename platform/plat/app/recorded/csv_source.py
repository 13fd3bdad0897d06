"""Read runs from CSV files: one long file with all runs, or a file for each run."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.app.recorded.choice import Choice
from plat.app.recorded.foreign_run import ForeignRun, text_values
from plat.app.recorded.path_values import values_of
from plat.errors import SpecError
from plat.plain_files import read_text
from plat.suggest import suggest
from plat.trainer.script.metrics import STEPS

INDEX = re.compile(r"(Unnamed: \d+)?")  # the name of the column with row numbers that pandas writes


@dataclass(frozen=True)
class Row:
    """One line of a CSV file: its number, and column -> text."""

    line: int
    cells: dict[str, str]


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
    header, rows = _rows(path)
    step = _step_column(path, header, choice)
    fix = "a file with several runs is imported alone, with --axes; join such files into one"
    history = _history(path, rows, step, {step}, fix)
    return ForeignRun(str(path), values_of(path.with_suffix(""), path.parent), history, str(path))


def _runs_of_long(path: Path, choice: Choice) -> list[ForeignRun]:
    """Return the runs of one long file: rows with the same values and seed are one run."""
    header, rows = _rows(path)
    step = _step_column(path, header, choice)
    keys = _value_columns(path, header, step, choice)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.cells[key] for key in keys), []).append(row)
    runs = []
    for texts, group in groups.items():
        values = dict(zip(keys, texts, strict=True))
        name = ", ".join(f"{key}={text}" for key, text in values.items())
        fix = "name the column that tells the runs apart: --seed KEY, or --axes A,B"
        history = _history(path, group, step, {step, *keys}, fix)
        runs.append(ForeignRun(name, text_values(values), history, f"{path}:{group[0].line}"))
    return runs


def _history(path: Path, rows: list[Row], step: str, left_out: set[str], fix: str) -> dict[int, dict[str, float]]:
    """Return the metrics of one run. Raises SpecError, with `fix`, if a metric has two numbers at one step."""
    history: dict[int, dict[str, float]] = {}
    lines: dict[int, int] = {}
    for index, row in enumerate(rows, start=1):
        at, numbers = _step(path, row, step, index), _numbers(row, left_out)
        metrics = history.setdefault(at, {})
        if not metrics.keys().isdisjoint(numbers):
            what = f"lines {lines[at]} and {row.line} have the same values and the same step {at}"
            raise SpecError(what, where=f"{path}:{row.line}", fix=fix)
        metrics.update(numbers)
        lines[at] = row.line
    return {at: metrics for at, metrics in history.items() if metrics}


def _value_columns(path: Path, header: list[str], step: str, choice: Choice) -> list[str]:
    """Return the columns that hold values: axes and seed, or without --axes all that are no metrics."""
    others = [name for name in header if name != step]
    for name in [*choice.axes, *choice.metrics]:
        if name not in header:
            raise SpecError(f"there is no column {name!r}", where=f"{path}:1", fix=suggest(name, others, "columns"))
    if choice.axes:
        return [name for name in others if name in choice.axes or name == choice.seed_key(others)]
    if choice.metrics:
        return [name for name in others if name not in choice.metrics]
    fix = f"name the columns of axes: --axes A,B, or those of metrics: --metrics M (columns: {', '.join(others)})"
    raise SpecError("which columns are axes, and which are metrics?", where=f"{path}:1", fix=fix)


def _rows(path: Path) -> tuple[list[str], list[Row]]:
    """Return the header and the rows of a file. Raises SpecError for an unreadable file and for a row of odd length."""
    fix = "write a header line, and lines with as many cells, separated by commas"
    try:
        reader = csv.reader(io.StringIO(read_text(path).removeprefix("\ufeff")), strict=True)
        cells = [cell.strip() for cell in next(reader, [])]
        rows = list(_checked(path, cells, reader, fix))
    except (OSError, ValueError, csv.Error) as error:
        raise SpecError(f"the file cannot be read: {error}", where=str(path), fix=fix) from None
    if len(cells) == 1 and (separator := next((mark for mark in ";\t|" if mark in cells[0]), None)):
        what = f"the cells are separated by {separator!r}, and not by commas"
        raise SpecError(what, where=f"{path}:1", fix="save the file with commas")
    if not rows:
        raise SpecError("the file has no rows", where=str(path), fix=fix)
    header = [name for name in cells if not INDEX.fullmatch(name)]
    if twice := next((name for name in header if header.count(name) > 1), None):
        raise SpecError(f"two columns are called {twice!r}", where=f"{path}:1", fix="rename one")
    return header, rows


def _checked(path: Path, header: list[str], reader: Any, fix: str) -> Iterator[Row]:
    for cells in reader:
        line = reader.line_num
        if cells and len(cells) != len(header):
            what = f"the line has {len(cells)} cells, and the header has {len(header)}"
            raise SpecError(what, where=f"{path}:{line}", fix=fix)
        if cells:
            named = zip(header, map(str.strip, cells), strict=True)
            yield Row(line, {name: cell for name, cell in named if not INDEX.fullmatch(name)})


def _step_column(path: Path, header: list[str], choice: Choice) -> str:
    """Return the column of steps, "" without one. Raises SpecError if --step names none."""
    if choice.step and choice.step not in header:
        fix = suggest(choice.step, header, "columns")
        raise SpecError(f"there is no column {choice.step!r}", where=f"{path}:1", fix=fix)
    return choice.step or next((name for step in STEPS for name in header if name.lower() == step), "")


def _step(path: Path, row: Row, column: str, index: int) -> int:
    """Return the step of a row; without a column of steps, its number in its run."""
    if not column:
        return index
    try:
        number = float(row.cells[column])
        step = int(number)
    except (ValueError, OverflowError):
        number = step = -1
    if step != number or step < 0:
        what = f"the step {column} is {row.cells[column]!r}, which is no whole number of at least 0"
        raise SpecError(what, where=f"{path}:{row.line}", fix="correct it, or name another column with --step")
    return step


def _numbers(row: Row, left_out: set[str]) -> dict[str, float]:
    """Return column -> number of the cells that are numbers."""
    found = {}
    for name, text in row.cells.items():
        if name not in left_out and text:
            try:
                found[name] = float(text)
            except ValueError:
                continue
    return found
