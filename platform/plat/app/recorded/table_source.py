"""Read runs from tables: CSV, TSV, JSON, JSON lines and Parquet, one file with all runs or many files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from plat.app.recorded.foreign_run import ForeignRun, History, Read, flat_values, merged, text_values
from plat.app.recorded.metric_choice import Choice
from plat.app.recorded.table_files import Found, find, join_of
from plat.app.recorded.typed_table import (
    Record,
    counter_of,
    header_of,
    json_records,
    line_records,
    logged_of,
    parquet_records,
    unpacked,
)
from plat.errors import RunError, SpecError
from plat.plain_files import read_text
from plat.suggest import suggest
from plat.trainer.script.readers.csv_metrics import CsvMetrics
from plat.trainer.script.readers.csv_table import Row
from plat.trainer.script.readers.objects import Logged, same
from plat.units import counted

TYPED = {".json": json_records, ".jsonl": line_records, ".ndjson": line_records, ".parquet": parquet_records}
SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", *TYPED, ".json.gz", ".jsonl.gz", ".ndjson.gz")
FORMULA = re.compile(r"=\s*([A-Za-z_.]+\d*\s*[-(+*/:]|\$?[A-Z]{1,3}\$?\d|[-+(\d]).*")  # of a spreadsheet
Join = Callable[[Mapping[str, Any]], dict[str, Any]]  # the values of a run -> these and further ones
FIX_ROWS = "write a header line, and lines with as many cells, separated by commas"


def read_tables(sources: Sequence[str], choice: Choice) -> Read:
    """Return the runs of tables, and sentences on files that were left out.

    The values of a run stand in the path of its file (`choice.path`, or `key=value` pieces), in a file beside it, and
    in the columns that are axes or the seed. Rows of all files with equal values are one run.

    Raises SpecError if there is no file, if one cannot be read, and for two different numbers of a metric at a step.
    """
    found, notes = find(sources, SUFFIXES, choice.path, choice.beside)
    if choice.levels and not any(".json" in each.path.suffixes for each in found):
        raise SpecError("--levels names keys of JSON, and no file is JSON", where="--levels", fix="leave it out")
    is_long = len(sources) == 1 and Path(sources[0]).is_file() and not choice.path
    joined = join_of(Path(choice.join)) if choice.join else dict
    runs: dict[str, list[Part]] = {}
    counted_rows = ""
    for part in (part for each in found for part in _parts(each, choice, is_long, joined)):
        runs.setdefault(part.key, []).append(part)
        if len(part.logged) > 1 and part.logged[0][1].counter == "line" and not part.is_own:
            counted_rows = (
                counted_rows or f"{part.place}: no column counts steps, so the rows of a run are steps 1, 2, ..."
            )
    notes += [counted_rows] if counted_rows else []
    if mixed := next((of_one for of_one in runs.values() if len(of_one) > 1), None):
        notes.append(
            f"files whose rows have the same values and seed are one run, such as {mixed[0].place} and {mixed[1].place}"
        )
    made = [_run(of_one, choice) for of_one in runs.values()]
    if further := [run.name for run, others in made if others]:
        what = f"the {choice.repeated} counts of the runs with the same values and seed"
        notes.append(f"{what}, in {counted(len(further), 'case')} such as {further[0]}")
    return [run for run, _ in made], notes


@dataclass(frozen=True)
class Part:
    """What one file has of one run.

    key     the same for parts of one run
    values  of the run
    texts   those of them that were read from a text
    logged  place and metrics of each step
    is_own  True: the whole file is this run, so that a later number at a step replaces an earlier one
    """

    key: str
    name: str
    place: str
    values: Mapping[str, Any]
    logged: list[tuple[str, Logged]]
    is_own: bool
    texts: Mapping[str, str] = field(default_factory=dict)


class Table(Protocol):
    """The rows of one file. `header`: the columns without the one that counts steps; `where`: the file's first row."""

    header: list[str]
    where: str

    def groups(self, keys: Sequence[str]) -> Iterator[tuple[dict[str, Any], dict[str, str], str, list[Any]]]:
        """Yield for each combination of values of the columns `keys` these values, their texts, a place, its rows."""

    def logged(self, rows: list[Any], left_out: Sequence[str], named_by: str) -> Iterator[tuple[str, str, Logged]]:
        """Yield place, the text of the column `named_by`, and the metrics of each row."""


def _parts(found: Found, choice: Choice, is_long: bool, joined: Join) -> Iterator[Part]:
    table = _table(found.path, choice)
    keys = _value_columns(table, choice, found.values, is_long)
    value, column = _value(table, choice)
    metrics = [column] if column else choice.metrics
    kept = {*metrics, *keys, choice.named_by}
    left_out = [name for name in table.header if name in keys or (metrics and name not in kept)]
    for values, texts, place, rows in table.groups(keys):
        logged = [
            (at, _renamed(each, column, name if choice.named_by else value, at))
            for at, name, each in table.logged(rows, left_out, choice.named_by)
        ]
        every = joined({**found.values, **values})
        is_own = not keys
        key = str(found.path) if is_own else repr(sorted({**every, **found.texts, **texts}.items(), key=str))
        name = ", ".join(f"{name}={value}" for name, value in {**found.texts, **texts}.items())
        shown = name if keys or choice.path else str(found.path)
        yield Part(key, shown, place, every, logged, is_own, {**found.texts, **texts})


def _value(table: Table, choice: Choice) -> tuple[str, str]:
    """Return the name of the only metric and its column: of several the first that the file has; "" for any metrics."""
    name, has_name, columns = choice.value.rpartition("=")
    wanted = [column.strip() for column in columns.split(",") if column.strip()]
    for column in wanted:
        if column in table.header:
            return name if has_name else column, column
    if wanted:
        what = f"there is no column {' or '.join(map(repr, wanted))}"
        raise SpecError(what, where=table.where, fix=suggest(wanted[0], table.header, "columns"))
    return "", ""


def _renamed(logged: Logged, column: str, name: str, place: str) -> Logged:
    """Return the metrics of a row with the one of `column` alone, called `name`; all of them without a column.

    Raises SpecError for a number without a name.
    """
    if not column:
        return logged
    value = logged.metrics.get(column)
    if value is not None and not name:
        raise SpecError("the number has no name", where=place, fix="fill the column of --name in, or leave the row out")
    return logged._replace(metrics={} if value is None else {name: value})


def _run(parts: list[Part], choice: Choice) -> tuple[ForeignRun, int]:
    """Return the run of its parts, and how many further runs had the same values and seed (`choice.repeated`).

    Raises SpecError if a metric has two numbers at one step, and `choice.repeated` does not say which run counts.
    """
    first = parts[0]
    if first.is_own:
        history, replaced = merged(logged for _, logged in first.logged)
        run = ForeignRun(first.name, dict(first.values), history, first.place, replaced=replaced, spelled=first.texts)
        return run, 0
    histories: list[History] = [{}]
    places: dict[tuple[int, str], str] = {}
    newest: dict[str, int] = {}  # metric -> its last step in the newest history
    for at, logged in ((at, logged) for part in parts for at, logged in part.logged):
        before = histories[-1].get(logged.step, {})
        twice = [name for name in logged.metrics if name in before]
        if twice and not choice.repeated:
            what = f"{places[logged.step, twice[0]]} and {at} have the same values and the same step {logged.step}"
            if all(name in before and same(before[name], value) for name, value in logged.metrics.items()):
                what += " and equal numbers"
            fix = "name what tells the runs apart: --seed KEY, or --axes A,B; or keep one of them: --repeated longest"
            raise SpecError(f"{what}, and both have {twice[0]}", where=at, fix=fix)
        if choice.repeated and any(logged.step < newest.get(name, -1) for name in logged.metrics):
            histories.append({})
            newest = {}
        elif any(not same(before[name], logged.metrics[name]) for name in twice):
            what = f"{places[logged.step, twice[0]]} and {at} have one step and other numbers: are two runs mixed?"
            raise SpecError(what, where=at, fix="name what tells the runs apart: --seed KEY, or --axes A,B")
        if logged.metrics:
            histories[-1].setdefault(logged.step, {}).update(logged.metrics)
            places |= {(logged.step, name): at for name in logged.metrics}
            newest |= dict.fromkeys(logged.metrics, logged.step)
    chosen = {"first": histories[0], "last": histories[-1]}.get(choice.repeated) or max(histories, key=len)
    run = ForeignRun(first.name, dict(first.values), chosen, first.place, spelled=first.texts)
    return run, len(histories) - 1


def _value_columns(table: Table, choice: Choice, known: Mapping[str, Any], is_long: bool) -> list[str]:
    """Return the columns that hold values of runs: axes and seed, or in one long file those that are no metrics."""
    header = table.header
    wanted = [_value(table, choice)[1], choice.named_by, *([] if choice.value else choice.metrics)]
    for name in filter(None, [*wanted, *choice.axes] if is_long else [choice.named_by]):
        if name not in [*header, *known] and not choice.join:
            fix = suggest(name, header, "columns")
            raise SpecError(f"there is no column {name!r}", where=table.where, fix=fix)
    seed = choice.seed_key([*header, *known]) if choice.seed != "none" else choice.seed_key(header)
    if choice.seed not in ("", "none", *header, *known) and not choice.join:
        fix = suggest(choice.seed, [*header, *known], "columns")
        raise SpecError(f"there is no column {choice.seed!r}", where=table.where, fix=fix)
    axes = choice.axes or choice.levels
    named = [name for name in header if name in axes or (name == seed and name not in known)]
    if axes or not is_long:
        return named
    if any(wanted):
        return [name for name in header if name not in wanted]
    fix = f"name the columns of axes: --axes A,B, or those of metrics: --metrics M (columns: {', '.join(header)})"
    raise SpecError("which columns are axes, and which are metrics?", where=table.where, fix=fix)


def _table(path: Path, choice: Choice) -> Table:
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix == ".json":
        return TypedTable(path, json_records(path, choice.levels), choice)
    if suffix in TYPED:
        return TypedTable(path, TYPED[suffix](path), choice)  # type: ignore[operator]
    return TextTable(path, choice)


class TextTable:
    """A file of CSV or TSV."""

    def __init__(self, path: Path, choice: Choice) -> None:
        self._metrics, self._path = CsvMetrics(str(path), choice.step, _refuse), path
        self._learned: CsvMetrics | None = None  # which columns are numbers, and of which dialect
        self.where = f"{path}:1"
        try:
            text = unpacked(path).decode("utf-8") if path.suffix == ".gz" else read_text(path)
            self._rows = list(self._metrics.table.rows(text, is_last=True))
        except (OSError, ValueError) as error:
            raise SpecError(f"the file cannot be read: {error}", where=str(path), fix=FIX_ROWS) from None
        if not self._rows:
            raise SpecError("the file has no rows", where=str(path), fix=FIX_ROWS)
        counters = self._metrics.counters()
        if choice.step and choice.step not in self._metrics.table.header:
            fix = suggest(choice.step, self._metrics.table.header, "columns")
            raise SpecError(f"there is no column {choice.step!r}", where=self.where, fix=fix)
        self.header = [name for name in self._metrics.table.header if name not in counters[:1]]
        self._check_formulas()

    def groups(self, keys: Sequence[str]) -> Iterator[tuple[dict[str, Any], dict[str, str], str, list[Row]]]:
        """Yield the values of each combination of columns, their texts, a place, and its rows."""
        groups: dict[tuple[str, ...], list[Row]] = {}
        for row in self._rows:
            groups.setdefault(tuple(row.cells.get(key, "") for key in keys), []).append(row)
        for cells, rows in groups.items():
            texts = dict(zip(keys, cells, strict=True))
            yield text_values(texts), texts, f"{self._path}:{rows[0].line}" if keys else str(self._path), rows

    def logged(self, rows: list[Row], left_out: Sequence[str], named_by: str) -> Iterator[tuple[str, str, Logged]]:
        """Yield place, name and metrics of each row. Raises SpecError for a bad step, and a column of several types."""
        if self._learned is None:
            self._learned = self._metrics.again([*left_out, *([named_by] if named_by else [])])
            self._learned.learn(self._rows)
        metrics = self._learned.again(self._learned.left_out)
        try:
            for row, logged in zip(rows, metrics.of_rows(rows, keeps_empty=True), strict=True):
                if logged.counter != (counter := metrics.counters()[0] if metrics.counters() else "line"):
                    what = f"{counter} is blank here, and {logged.counter} would count the step of this row alone"
                    fix = f"fill it in, leave the row out, or count all rows by another column: --step {logged.counter}"
                    raise SpecError(what, where=f"{self._path}:{row.line}", fix=fix)
                yield f"{self._path}:{row.line}", row.cells.get(named_by, ""), logged
        except RunError as error:
            fix = "correct it, or name another column with --step"
            raise SpecError(error.what.replace("the script logged", "there is"), where=error.where, fix=fix) from None

    def _check_formulas(self) -> None:
        for row in self._rows:
            for name, text in row.cells.items():
                if text.startswith("=") and FORMULA.fullmatch(text):
                    what = f"the column {name} has a formula of a spreadsheet: {text[:60]!r}"
                    raise SpecError(what, where=f"{self._path}:{row.line}", fix="save the values in its place")


class TypedTable:
    """A file whose values have types."""

    def __init__(self, path: Path, records: list[Record], choice: Choice) -> None:
        self._path, self._records, self.where = path, records, str(path)
        if not records:
            raise SpecError("the file has no records", where=str(path), fix="name another file")
        header = header_of(records)
        self._counter = counter_of(header, choice.step)
        if self._counter and self._counter not in header:
            raise SpecError(
                f"there is no key {choice.step!r}", where=str(path), fix=suggest(choice.step, header, "keys")
            )
        self.header = [name for name in header if name != self._counter]

    def groups(self, keys: Sequence[str]) -> Iterator[tuple[dict[str, Any], dict[str, str], str, list[Record]]]:
        """Yield the values of each combination of keys, no texts, a place, and its records.

        Raises SpecError if such a value is a list.
        """
        groups: dict[str, list[Record]] = {}
        for record in self._records:
            groups.setdefault(repr([record.cells.get(key) for key in keys]), []).append(record)
        for records in groups.values():
            found = {key: records[0].cells.get(key) for key in keys}
            for key, value in found.items():
                if isinstance(value, list):
                    what = f"{key!r} is an axis or the seed of runs, and a list here"
                    raise SpecError(what, where=records[0].place, fix="name other axes: --axes A,B")
            values = flat_values(found)  # without numbers that no file can hold
            yield values, {}, records[0].place if keys else str(self._path), records

    def logged(self, rows: list[Record], left_out: Sequence[str], named_by: str) -> Iterator[tuple[str, str, Logged]]:
        """Yield place, name and metrics of each step."""
        return logged_of(rows, self._counter, {*left_out, named_by}, named_by)


def _refuse(what: str, where: str, fix: str) -> None:
    raise SpecError(what, where=where, fix=fix or "correct the line, or leave it out")
