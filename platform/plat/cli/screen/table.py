"""Text tables that fit the terminal (see `plat.characters`). A pipe has no width unless COLUMNS gives one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

from plat.characters import broken, row_blocks
from plat.cli.common import on_terminal


def terminal_width() -> int | None:
    """Return COLUMNS if set, else the columns of the terminal; None for a pipe."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return shutil.get_terminal_size((80, 24)).columns if on_terminal() else None


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    width: int | None = None,
    indent: str = "  ",
    drop_empty: bool = False,
) -> str:
    """Return rows under a header, numbers right-aligned, None as an empty cell; "" without rows.

    width       columns that a line may take; None: those of the terminal
    drop_empty  leave out the columns in which no row has a text
    """
    if not rows:
        return ""
    if drop_empty:
        filled = [index for index in range(len(header)) if any(row[index] not in (None, "") for row in rows)]
        header = [header[index] for index in filled]
        rows = [[row[index] for index in filled] for row in rows]
    room = width if width is not None else terminal_width()
    heading, blocks = row_blocks(header, rows, room, indent)
    return "\n".join([*heading, *(line for block in blocks for line in block)])


def first_rows(header: Sequence[str], rows: Sequence[Sequence[Any]], number: int, advice: str = "") -> str:
    """Return a table of the first `number` rows, and a line that counts the others and ends with `advice`."""
    more = f"\n  and {len(rows) - number} more{advice}" if len(rows) > number else ""
    return table(header, rows[:number]) + more


def fitted(text: str, width: int | None = None) -> str:
    """Return the text with lines that are too wide broken at blanks; continuation lines are indented.

    width  columns that a line may take; None: those of the terminal
    """
    room = width if width is not None else terminal_width()
    if room is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in broken(line, room))
