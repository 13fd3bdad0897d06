"""Read CSV as it comes: rows under their header, with the line of each.

A header may come again, also with other columns, as when a logger is resumed. Comments (`#`), a byte order mark, an
index column of pandas, semicolons, tabs and ends of lines in quotes are read; anything else is refused with its line.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from plat.trainer.script.readers.objects import Refuse, number

INDEX = re.compile(r"(Unnamed: \d+)?")  # the name of the column with row numbers that pandas writes
SEPARATORS = ",;\t|"
LONGEST_RECORD = 1 << 20  # characters of a row with ends of lines in quotes
FIX = "write a header line, and lines with as many cells"


@dataclass(frozen=True)
class Row:
    """One row: the number of its line, and column -> text."""

    line: int
    cells: dict[str, str]


class CsvTable:
    """The rows of one file. `header`: the columns, without an index of pandas. `separator`: that of the cells."""

    def __init__(self, place: str, refuse: Refuse) -> None:
        self.place, self.header, self.separator = place, list[str](), ","
        self._refuse = refuse
        self._all: list[str] = []  # the columns, with an index
        self._comment: tuple[int, str] | None = None  # the newest, which may be the header that numpy writes
        self._line = 0
        self._is_said = False  # that a column has no name
        self._open = ""  # a row whose quotes are not closed
        self._known: frozenset[str] = frozenset()  # the columns that are read

    def rows(self, text: str, is_last: bool = False) -> Iterator[Row]:
        """Yield the rows of a further part of the file, which ends with a line, or anywhere with `is_last`."""
        for line in io.StringIO(text):  # not splitlines, which knows more ends of lines
            self._line += 1
            if self._line == 1:
                line = line.removeprefix("\ufeff")
            if not self._open and line.lstrip().startswith("#") and not self._is_row(line):
                self._comment = (self._line, line.strip().lstrip("#").strip())
                continue
            self._open += line
            if self._open.count('"') % 2 == 0 or len(self._open) > LONGEST_RECORD:
                yield from self._row()
        if is_last and self._open:
            yield from self._row()

    def _row(self) -> Iterator[Row]:
        record, self._open = self._open, ""
        if not record.strip():
            return
        first = self._line - record.rstrip("\r\n").count("\n")
        where = f"{self.place}:{first}"
        if record.count('"') % 2:
            self._refuse("a quote is not closed", where, "close it, or write two quotes for one inside of a cell")
            return
        if not self._all:
            self.separator = max(SEPARATORS, key=_outside_quotes(record).count)
        try:
            cells = self._cells(record)
        except csv.Error as error:
            self._refuse(f"the line cannot be read: {error}", where, FIX)
            return
        if not self._all and self._comment and all(number(cell) is not None for cell in cells):
            names = self._cells(self._comment[1])
            if len(names) == len(cells):
                self._set_header(names, self._comment[0])
        if not self._all or self._is_header(cells):
            self._set_header(cells, first)
            return
        if len(cells) != len(self._all):
            what = f"the line has {len(cells)} cells, and the header has {len(self._all)}"
            self._refuse(what, where, FIX + (f", separated by {self.separator!r}" if len(self._all) > 1 else ""))
            return
        if "" in self._all and self.header and not self._is_said:
            self._check_unnamed(cells, where)
        named = zip(self._all, cells, strict=True)
        yield Row(first, {name: cell for name, cell in named if name in self._known})

    def _check_unnamed(self, cells: list[str], where: str) -> None:
        """Refuse a text in a column without a name, once: such a column is left out as the index of pandas."""
        texts = [
            cell for name, cell in zip(self._all, cells, strict=True) if not name and cell and number(cell) is None
        ]
        if texts:
            self._is_said = True
            self._refuse(f"a column without a name has {texts[0]!r}, and is not read", where, "name it in the header")

    def _is_row(self, line: str) -> bool:
        """Return True for a line with `#` below the header that has as many cells, and a number: it is no comment."""
        if len(self._all) < 2 or line.count('"') % 2:
            return False
        cells = self._cells(line)
        return len(cells) == len(self._all) and any(number(cell) is not None for cell in cells)

    def _cells(self, record: str) -> list[str]:
        return [cell.strip() for cell in next(csv.reader(io.StringIO(record), delimiter=self.separator), [])]

    def _is_header(self, cells: list[str]) -> bool:
        """Return True for a further header: it repeats at least half of the names, and has no number."""
        known = sum(cell in self._known for cell in cells)
        return known > 0 and 2 * known >= len(self._known) and all(number(cell) is None for cell in cells if cell)

    def _set_header(self, cells: list[str], line: int) -> None:
        if not self._all and number(begin := next(filter(None, cells), "")) is not None:
            what = f"the first line must name the columns, and begins with the number {begin}"
            self._refuse(what, f"{self.place}:{line}", FIX)
            cells = [""] * len(cells)  # no names
        twice = {name for name in cells if cells.count(name) > 1 and not INDEX.fullmatch(name)}
        for name in sorted(twice):
            self._refuse(f"two columns are called {name!r}", f"{self.place}:{line}", "rename one")
        self._all = cells
        self.header = [name for name in cells if not INDEX.fullmatch(name) and name not in twice]
        self._known = frozenset(self.header)


def _outside_quotes(record: str) -> str:
    return "".join(record.split('"')[::2])
