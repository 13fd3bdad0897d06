"""Render a Table as Markdown and CSV. Pure functions to text; equal tables give equal bytes."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from plat_analysis.artifact import Cell, Table
from plat_analysis.shown_text import printable

STARRED = ("good", "bad", "starred")  # tones shown by a star


def groups(table: Table) -> list[tuple[str, int]]:
    """Return [(heading, number of neighbouring columns), ...]; a column without a group has the heading "" alone."""
    spans: list[tuple[str, int]] = []
    for column in table.columns:
        if column.group and spans and spans[-1][0] == column.group:
            spans[-1] = (column.group, spans[-1][1] + 1)
        else:
            spans.append((column.group, 1))
    return spans


def stubs(table: Table) -> int:
    """Return how many columns name the rows: those before the first numeric one, or 1 if none is numeric."""
    numeric = [column.numeric for column in table.columns]
    return numeric.index(True) if True in numeric else 1


def markdown(table: Table) -> str:
    """Return a GitHub table, with headings `group: column`, then the notes."""

    def show(cell: Cell) -> str:
        text = inert(cell.text) + ("\\*" if cell.tone in STARRED else "")
        if cell.mark:
            text += f"<sup>{cell.mark}</sup>"
        return f"**{text}**" if cell.tone == "strong" and cell.text else text

    heads = [": ".join(filter(None, [column.group, column.title])) for column in table.columns]
    aligns = ["---:" if column.numeric else ":---" for column in table.columns]
    lines = [f"### {inert(table.title)}", ""]
    if table.whole_caption:
        lines += [inert(table.whole_caption), ""]
    lines += [_piped(map(inert, heads)), _piped(aligns)]
    for row in table.rows:
        if row.section:
            lines.append(_piped([f"*{inert(row.section)}*", *[""] * (len(table.columns) - 1)]))
        lines.append(_piped([show(cell) for cell in row.cells]))
    if table.notes:
        lines += ["", *(f"- {f'<sup>{n.mark}</sup> ' if n.mark else ''}{inert(n.text)}" for n in table.notes)]
    return "\n".join(lines) + "\n"


def inert(text: str) -> str:
    """Escape text that Markdown could read as a tag, an entity, a link's target or a table's bar."""
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "\\|").replace("](", "]\\(")
    )


def _piped(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def tidy(records: list[dict[str, Any]]) -> str:
    """Return CSV with a header, one line per record; columns in order of first appearance.

    Floats have 10 decimals at most; None and NaN are empty. Text that could be a formula gets an apostrophe in front.
    """
    names = list(dict.fromkeys(name for line in records for name in line))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_no_formula, map(printable, names)))
    for line in records:
        writer.writerow([_plain(line.get(name)) for name in names])
    return out.getvalue()


def _plain(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return _text(value)
    if kind is int:
        return str(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return repr(float(round(value, 10)))
    return _no_formula(printable(value))


@lru_cache(10_000)  # names of rows and runs repeat in very many lines
def _text(value: str) -> str:
    return _no_formula(printable(value))


def _no_formula(text: str) -> str:
    """Prefix text that a spreadsheet would run as a formula with an apostrophe (OWASP's rule); numbers stay."""
    if not text.startswith(("=", "+", "-", "@")):
        return text
    try:
        float(text)
    except ValueError:
        return "'" + text
    return text
