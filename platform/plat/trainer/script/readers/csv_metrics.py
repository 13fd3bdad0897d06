"""Turn the rows of a CSV file into metrics by step."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Sequence
from copy import copy

from plat.trainer.script.readers.columns import MISSING, Column
from plat.trainer.script.readers.csv_table import CsvTable, Row
from plat.trainer.script.readers.logged import Logged, Refuse, number, step_names, whole

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
        self._steps, self._refuse, self._next = step_names(step), refuse, first
        self._columns: dict[str, Column] = {}
        self._refused: dict[str, int] = {}  # column -> the line from which on it is not read
        self._read: set[str] = set()  # columns with values that were yielded

    def again(self, left_out: Collection[str]) -> CsvMetrics:
        """Return a reader of rows of the same table that counts rows anew and leaves out more columns."""
        made = copy(self)
        made.left_out = {*left_out}
        return made

    def read(self, text: str, is_last: bool = False) -> Iterator[Logged]:
        """Yield the metrics of a further part of the file (`CsvTable.rows`)."""
        yield from self.of_rows(list(self.table.rows(text, is_last)))

    def of_rows(self, rows: Sequence[Row], keeps_empty: bool = False) -> Iterator[Logged]:
        """Yield the metrics of rows. Without a column of steps, rows are counted.

        keeps_empty  True: also yield rows without a metric

        Raises RunError if a step is a number, but no whole one from 0 to LARGEST_STEP.
        """
        counters = self.counters()
        self.learn(rows)
        for row in rows:
            counter = next((name for name in counters if row.cells.get(name, "") not in MISSING), "")
            if counters and not counter:
                self._refuse("the line has no step, and others have one", f"{self.table.place}:{row.line}", "")
                continue
            step = self._step(row, counter) if counter else self._next
            if step is None:
                continue
            self._next = step + 1
            metrics = dict(self._metrics(row, counter))
            self._read.update(metrics)
            if metrics or keeps_empty:
                yield Logged(step, metrics, time.time(), counter or "line")

    def counters(self) -> list[str]:
        """Return the columns that may count steps, the first one first."""
        names = {name.lower(): name for name in reversed(self.table.header)}
        found = [names[name] for name in self._steps if name in names]
        return found or [name for name in self.table.header if name == OF_SB3]

    def _step(self, row: Row, counter: str) -> int | None:
        stated = number(row.cells[counter])
        if stated is None:
            what = f"the step {counter} is {row.cells[counter]!r}, which is no number"
            self._refuse(what, f"{self.table.place}:{row.line}", "correct it, or name another column of steps")
            return None
        return whole(counter, row.cells[counter], stated, f"{self.table.place}:{row.line}")

    def learn(self, rows: Sequence[Row]) -> None:
        """Learn the types of columns from rows, all of which `of_rows` gets."""
        for row in rows:
            self._learn(row, self.counters()[:1])

    def _learn(self, row: Row, steps: Sequence[str]) -> None:
        for name, text in row.cells.items():
            if name in self.left_out or name in self._refused or name in steps:
                continue
            column = self._columns.setdefault(name, Column(self.table.separator))
            before = column.dialect
            if not column.add(text):
                self._refused[name] = row.line
                kind = "texts" if column.is_text else "numbers"
                what = f"the column {name} has {kind}, and here {text!r}: it is not read from here on"
                self._refuse(what, f"{self.table.place}:{row.line}", FIX)
            self.is_outdated |= column.dialect is not before and name in self._read

    def _metrics(self, row: Row, counter: str) -> Iterator[tuple[str, float]]:
        for name, text in row.cells.items():
            column = self._columns.get(name)
            if column is None or name == counter or row.line > self._refused.get(name, row.line):
                continue
            if self._refused.get(name) == row.line and not column.is_text:
                yield name, math.nan  # so that the value before does not count as the last one
            elif (value := column.number(text)) is not None and self._refused.get(name) != row.line:
                yield name, value
