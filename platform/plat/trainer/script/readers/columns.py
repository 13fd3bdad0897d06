"""Read the cells of a column as one type: numbers of one dialect, or texts."""

from __future__ import annotations

import re
from collections.abc import Callable

from plat.trainer.script.readers.logged import number

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
