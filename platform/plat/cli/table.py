"""Tables of text that fit the terminal. No cell is ever cut: where a row is too wide, it takes several lines.

A table that fits has one line per row. In one that does not, the first cell of each row (a run's name) has a line of
its own, and the others follow it, each with the name of its column. A pipe has no width, unless COLUMNS says so.
"""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

from plat.cli.common import on_terminal
from plat.text import columns_of

SEPARATOR = " · "


def terminal_width() -> int | None:
    """Columns of the terminal, or what COLUMNS says to a pipe; None for a pipe without limits."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return shutil.get_terminal_size((80, 24)).columns if on_terminal() else None


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None = None, indent: str = "  ") -> str:
    """Rows under a header, numbers to the right, None as nothing; "" without rows.

    width  columns that a line may take; None for the terminal's
    """
    if not rows:
        return ""
    room = width if width is not None else terminal_width()
    heading, blocks = row_blocks(header, rows, room, indent)
    return "\n".join([*heading, *(line for block in blocks for line in block)])


def row_blocks(
    header: Sequence[str], rows: Sequence[Sequence[Any]], room: int | None, indent: str = ""
) -> tuple[list[str], list[list[str]]]:
    """The lines of the header, none where each row names its columns, and the lines of each row.

    room  columns that a line may take; None for as many as it needs
    """
    lines = _lines(header, rows, indent)
    if room is not None and max(map(columns_of, lines)) > room:
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


def _stacked(header: Sequence[str], row: Sequence[Any], room: int, indent: str) -> list[str]:
    """One row as several lines: its first cell, then the others, wrapped between cells where that is possible."""
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
    return [part for line in lines for part in _broken(line, room)]


def fitted(text: str, width: int | None = None) -> str:
    """A text in which every line that is wider than the terminal is broken at blanks; its rest is indented.

    width  columns that a line may take; None for the terminal's
    """
    room = width if width is not None else terminal_width()
    if room is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _broken(line, room))


def _broken(line: str, room: int) -> list[str]:
    if columns_of(line) <= room:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, max(20, room), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)
