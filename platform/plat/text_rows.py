"""Lay out rows of text on a terminal. No cell is ever cut: a row that is too wide takes several lines.

If all rows fit, each takes one line under a header. Otherwise a last column of text is wrapped, if there is room for
it. Without that room, the first cell of each row (a run's name) has its own line, and the other cells follow with their
column names.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from plat.characters import columns_of

SEPARATOR = " · "
LEAST = 24  # columns that a wrapped last column needs


def row_blocks(
    header: Sequence[str], rows: Sequence[Sequence[Any]], room: int | None, indent: str = ""
) -> tuple[list[str], list[list[str]]]:
    """Return (header, lines of each row) of a table: one line a row if all lines fit, else several.

    If all lines fit, or fit with a wrapped last column, the header is one line. Otherwise it is [], and every row takes
    several lines: its first cell without a column name, then `name value · name value`, wrapped. Empty cells are then
    left out.

    room    terminal columns that a line should take; None for no limit. A longer word stays whole
    indent  begins every line, and counts as part of it
    """
    lines = _lines(header, rows, indent)
    if room is not None and max(map(columns_of, lines)) > room:
        if wrapped := _wrapped(header, rows, room, indent):
            return wrapped
        return [], [_stacked(header, row, room, indent) for row in rows]
    return lines[:1], [[line] for line in lines[1:]]


def _lines(header: Sequence[str], rows: Sequence[Sequence[Any]], indent: str) -> list[str]:
    texts = [list(header), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(columns_of(row[index]) for row in texts) for index in range(len(header))]
    numeric = [all(isinstance(row[index], int | float | None) for row in rows) for index in range(len(header))]
    lines = []
    for row in texts:
        cells = []
        for text, size, is_number in zip(row, widths, numeric, strict=True):
            blanks = " " * (size - columns_of(text))
            cells.append(blanks + text if is_number else text + blanks)
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def _wrapped(
    header: Sequence[str], rows: Sequence[Sequence[Any]], room: int, indent: str
) -> tuple[list[str], list[list[str]]] | None:
    """Return header and lines with the last column wrapped; None if it is not text with blanks, or has no room."""
    if len(header) < 2 or not any(" " in _text(row[-1]) for row in rows):
        return None
    first = _lines([*header[:-1], ""], [[*row[:-1], ""] for row in rows], indent)
    width = max(map(columns_of, first)) + 2
    if width + LEAST > room:
        return None
    blocks = []
    for line, text in zip(first, [header[-1], *(_text(row[-1]) for row in rows)], strict=True):
        parts = textwrap.wrap(text, room - width, break_long_words=False, break_on_hyphens=False) or [""]
        start = line + " " * (width - columns_of(line))
        blocks.append([(start + parts[0]).rstrip(), *(" " * width + part for part in parts[1:])])
    return blocks[0], blocks[1:]


def _stacked(header: Sequence[str], row: Sequence[Any], room: int, indent: str) -> list[str]:
    """Return one row as several lines: its first cell, then the others, wrapped between cells where possible."""
    facts = [f"{name} {_text(cell)}" for name, cell in zip(header[1:], row[1:], strict=True) if _text(cell)]
    inner = indent + "  "
    lines, line = [indent + _text(row[0])], ""
    for fact in facts:
        if line and columns_of(inner + line + SEPARATOR + fact) > room:
            lines.append(inner + line)
            line = fact
        else:
            line = line + SEPARATOR + fact if line else fact
    lines += [inner + line] if line else []
    return [part for line in lines for part in broken(line, room)]


def broken(line: str, room: int) -> list[str]:
    """Break a line at blanks into lines of `room` columns, further ones indented; a longer word stays whole."""
    if columns_of(line) <= room:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, max(20, room), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)
