"""Read the cells of a column as one type: numbers of one dialect, or texts."""

from __future__ import annotations

import re
from collections.abc import Callable

from plat.trainer.script.readers.logged import number

MISSING = ("", "NA", "N/A", "<NA>", "None", "null")  # what pandas, Keras and others write for no value
POINT = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?")  # 1,020.5
COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?([eE][-+]?\d+)?")  # 1.020,5


def _point(text: str) -> float | None:
    return number(text.replace(",", "") if POINT.fullmatch(text) else text)


def _comma(text: str) -> float | None:
    plain = text.replace(".", "").replace(",", ".") if COMMA.fullmatch(text) else text
    return None if plain is text and "." in text else number(plain)


Dialect = Callable[[str], float | None]


class Column:
    """One column. `separator`: that of the file; a semicolon stands beside decimal commas."""

    def __init__(self, separator: str) -> None:
        first, second = (_comma, _point) if separator == ";" else (_point, _comma)
        self._dialects: list[Dialect] = [number, first, second]
        self._first: str | None = None
        self.is_text = False

    def add(self, text: str) -> bool:
        """Take a cell. Returns False if the column has numbers and a text that is none, or numbers of two dialects."""
        if text in MISSING:
            return True
        fitting = [] if self.is_text else [read for read in self._dialects if read(text) is not None]
        if self._first is None:
            self._first, self.is_text = text, not fitting
        elif self.is_text:
            return all(read(text) is None for read in (number, _point, _comma))
        if fitting:
            self._dialects = fitting
        return bool(fitting) or self.is_text

    @property
    def dialect(self) -> Dialect:
        """The reader of all cells so far."""
        return self._dialects[0]

    def number(self, text: str) -> float | None:
        """Return the number of a cell, None for a missing one and in a column of texts."""
        return None if self.is_text or text in MISSING else self.dialect(text)
