"""Turn the rows of a CSV file into metrics by step."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy

from plat.trainer.script.readers.csv_table import CsvTable, Row
from plat.trainer.script.readers.objects import Logged, Refuse, number, same, step_names, whole

OF_SB3 = "time/total_timesteps"  # the step in the files of stable-baselines3's logger, which have no other
FIX = "write numbers of one form into a column of numbers, and leave a cell without a value empty"


class CsvMetrics:
    """The metrics of one file.

    is_outdated  True: earlier values may be wrong, because a later cell says how to read the column
    left_out     columns that are no metrics

    step         the column of the step; "": in each row, the first of STEPS that has a value
    """

    def __init__(self, place: str, step: str, refuse: Refuse, *, first: int = 1) -> None:
        self.table = CsvTable(place, refuse)
        self.is_outdated = False
        self.left_out: set[str] = set()
        self._named, self._steps, self._refuse, self._next = step, step_names(step), refuse, first
        self._columns: dict[str, Column] = {}
        self._refused: dict[str, int] = {}  # column -> the line from which on it is not read
        self._shared: Dialect | None = None  # that of columns that could have either
        self._met: dict[str, Dialect | None] = {}  # such a column -> how its cells were read; None: they were not

    def again(self, left_out: Collection[str]) -> CsvMetrics:
        """Return a reader of rows of the same table that counts rows anew and leaves out more columns."""
        made = copy(self)
        made.left_out = {*left_out}
        return made

    def read(self, text: str, is_last: bool = False) -> Iterator[Logged]:
        """Yield the metrics of a further part of the file (`CsvTable.rows`)."""
        yield from self.of_rows(list(self.table.rows(text, is_last)), is_last=is_last)

    def of_rows(self, rows: Sequence[Row], keeps_empty: bool = False, is_last: bool = True) -> Iterator[Logged]:
        """Yield the metrics of rows. Without a column of steps, rows are counted.

        keeps_empty  True: also yield rows without a metric
        is_last      False: cells whose dialect is open wait for rows that show it

        Raises RunError if a step is a number, but no whole one from 0 to LARGEST_STEP.
        """
        counters = self.counters()
        self.learn(rows)
        for row in rows:
            counter = next((name for name in counters if row.cells.get(name, "") not in MISSING), "")
            if counters and not counter:
                self._refuse("the line has no step, and others have one", f"{self.table.place}:{row.line}", "")
                continue
            step = self._step(row, counter, is_last) if counter else self._next
            if step is None:
                continue
            self._next = step + 1
            metrics = dict(self._metrics(row, counter, is_last))
            if metrics or keeps_empty:
                yield Logged(step, metrics, time.time(), counter or "line")

    def counters(self) -> list[str]:
        """Return the columns that may count steps, the first one first."""
        if self._named in self.table.header:
            return [self._named]
        names = {name.lower(): name for name in reversed(self.table.header)}
        found = [names[name] for name in self._steps if name in names]
        return found or [name for name in self.table.header if name == OF_SB3]

    def _step(self, row: Row, counter: str, is_last: bool) -> int | None:
        stated = self._number(row, counter, is_last)
        if stated is None and self._met.get(counter, point) is not None:
            what = f"the step {counter} is {row.cells[counter]!r}, which is no number"
            self._refuse(what, f"{self.table.place}:{row.line}", "correct it, or name another column of steps")
        where = f"{self.table.place}:{row.line}"
        return None if stated is None else whole(counter, row.cells[counter], stated, where)

    def learn(self, rows: Sequence[Row]) -> None:
        """Learn the types of columns from rows, all of which `of_rows` gets."""
        for row in rows:
            self._learn(row, self.counters()[:1])
        proven = {column.fitting[0] for column in self._columns.values() if len(column.fitting) == 1}
        unproven = None if self.table.separator == ";" else point
        self._shared = unproven if not proven else proven.pop() if len(proven) == 1 else None
        self.is_outdated |= any(self._dialect(name) is not read for name, read in self._met.items())

    def _learn(self, row: Row, steps: Sequence[str]) -> None:
        for name, text in row.cells.items():
            if name in self._refused:
                continue
            column = self._columns.setdefault(name, Column())
            is_first, fits = column.is_empty, column.add(text)
            if name in self.left_out or name in steps:
                continue  # its numbers show the dialect of others
            if not fits:
                kind = "texts" if column.is_text else "numbers"
                what = f"the column {name} has {kind}, and here {text!r}: it is not read from here on"
            elif is_first and column.is_text and ALMOST.fullmatch(text):
                what = f"the column {name} is not read: {text!r} is no number"
            else:
                continue
            self._refused[name] = row.line
            self._refuse(what, f"{self.table.place}:{row.line}", FIX)

    def _dialect(self, name: str) -> Dialect | None:
        return self._shared if len(fitting := self._columns[name].fitting) > 1 else fitting[0]

    def _number(self, row: Row, name: str, is_last: bool) -> float | None:
        """Return the number of a cell; None for a text, and while it is open which number it is."""
        one, other = point(text := row.cells[name]), comma(text)
        if one is None or other is None or same(one, other):
            return other if one is None else one
        read = self._met[name] = self._dialect(name)
        if read is None and is_last and self._refused.setdefault(name, row.line) == row.line:
            what = f"{text!r} in the column {name} is {one} or {other}, and no cell shows which: it is not read"
            self._refuse(what, f"{self.table.place}:{row.line}", "write a decimal point, and nothing between thousands")
        return read(text) if read else None

    def _metrics(self, row: Row, counter: str, is_last: bool) -> Iterator[tuple[str, float]]:
        for name, text in row.cells.items():
            is_left_out = name in self.left_out or name == counter or row.line > self._refused.get(name, row.line)
            if is_left_out or self._columns[name].is_text or self._met.get(name, point) is None:
                continue  # also what follows an open cell
            value = None if text in MISSING else self._number(row, name, is_last)
            if self._refused.get(name) == row.line:
                yield name, math.nan  # so that the value before does not count as the last one
            elif value is not None:
                yield name, value


# Read the cells of a column as one type: numbers of one dialect, or texts.

MISSING = ("", "NA", "N/A", "<NA>", "None", "null")  # what pandas, Keras and others write for no value
POINT = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")  # 1,020.5
COMMA = re.compile(r"[-+]?([1-9]\d{0,2}(\.\d{3})+|\d+)(,\d+)?([eE][-+]?\d+)?")  # 1.020,5
ALMOST = re.compile(r"[$€£¥]?\s?[-+]?\d+([ ,.'\u00a0\u202f]\d{3})*([.,]\d+)?\s?[%‰$€£¥]?")  # 12%, $10, 1 020


def point(text: str) -> float | None:
    """Return a number with a decimal point."""
    return number(text.replace(",", "") if POINT.fullmatch(text) else text)


def comma(text: str) -> float | None:
    """Return a number with a decimal comma."""
    plain = text.replace(".", "").replace(",", ".") if COMMA.fullmatch(text) else text
    return None if plain is text and "." in text else number(plain)


Dialect = Callable[[str], float | None]


class Column:
    """One column. `fitting`: the dialects in which all of its numbers can be read."""

    def __init__(self) -> None:
        self.fitting: list[Dialect] = [point, comma]
        self.is_empty, self.is_text = True, False

    def add(self, text: str) -> bool:
        """Take a cell. Returns False if the column has numbers and a text that is none, or numbers of two dialects."""
        if text in MISSING:
            return True
        is_first, self.is_empty = self.is_empty, False
        if self.is_text:
            return point(text) is None and comma(text) is None
        fitting = [read for read in self.fitting if read(text) is not None]
        self.is_text = is_first and not fitting
        self.fitting = fitting or self.fitting
        return bool(fitting) or self.is_text
