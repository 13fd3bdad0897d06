"""A Table on the terminal: columns of one group stand close together; intervals are shortened where space is scarce.

Lines are laid out here rather than by rich's own table, whose columns cannot share a heading or a section line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plat_analysis.artifact import Cell, Table
from plat_analysis.render import groups

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.text import Text

STYLES = {"": "", "strong": "bold", "dim": "bright_black", "good": "bold green", "bad": "bold red", "missing": "yellow"}
SUPERSCRIPT = str.maketrans("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")
BETWEEN = "   "  # groups


def print_table(console: Console, table: Table) -> None:
    """Print it, as wordy as the console's width allows."""
    levels = 1 + max((len(cell.shorter) for row in table.rows for cell in row.cells), default=0)
    level = next((level for level in range(levels) if _width(table, level) <= console.width), levels - 1)
    console.print(render(table, level), crop=False)


def render(table: Table, level: int = 0) -> Group:
    """The table as a rich renderable, at a level of brevity (0 is the full text)."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    widths, gap = _widths(table, level), _gap(level)
    lines = [Text("─" * _width(table, level), style="bright_black")]
    if any(title for title, _ in groups(table)):
        lines.insert(0, Text(BETWEEN.join(_headings(table, widths, gap)).rstrip(), style="bold"))
    names = [Cell(column.title, tone="dim") for column in table.columns]
    lines.insert(-1, _line(table, names, widths, gap, 0))
    for index, row in enumerate(table.rows):
        if row.rule and index:
            lines.append(Text())
        if row.section:
            lines.append(Text(row.section, style="italic cyan"))
        lines.append(_line(table, row.cells, widths, gap, level))
    for line in lines:
        line.no_wrap, line.overflow = True, "ignore"  # too narrow a terminal breaks lines; nothing is cut off
    caption = [Text(table.caption, style="bright_black"), Text()] if table.caption else []
    notes = [Text(f"{n.mark.translate(SUPERSCRIPT)} {n.text}".strip(), style="bright_black") for n in table.notes]
    spaced: list[Any] = [Text(), *(Padding(note, (0, 0, 0, 1)) for note in notes)] if notes else []
    return Group(Text(table.title, style="bold"), *caption, *lines, *spaced)


def _line(table: Table, cells, widths: list[int], gap: str, level: int) -> Text:
    from rich.text import Text

    line, at = Text(), 0
    for position, (_, span) in enumerate(groups(table)):
        for i in range(at, at + span):
            before = (BETWEEN if position else "") if i == at else gap
            text = _shown(cells[i], level)
            padded = text.rjust(widths[i]) if table.columns[i].numeric else text.ljust(widths[i])
            line.append(before).append(padded, style=STYLES[cells[i].tone])
        at += span
    line.rstrip()
    return line


def _headings(table: Table, widths: list[int], gap: str) -> list[str]:
    found, at = [], 0
    for title, span in groups(table):
        found.append(title.rjust(sum(widths[at : at + span]) + len(gap) * (span - 1)))
        at += span
    return found


def _shown(cell: Cell, level: int) -> str:
    return cell.form(level) + cell.mark.translate(SUPERSCRIPT)


def _gap(level: int) -> str:
    return " " if level > 1 else "  "  # inside a group


def _widths(table: Table, level: int) -> list[int]:
    widths = [
        max([len(column.title), *(len(_shown(row.cells[i], level)) for row in table.rows)])
        for i, column in enumerate(table.columns)
    ]
    at = 0
    for title, span in groups(table):  # a group is at least as wide as its heading
        widths[at] += max(0, len(title) - sum(widths[at : at + span]) - len(_gap(level)) * (span - 1))
        at += span
    return widths


def _width(table: Table, level: int) -> int:
    spans = [span for _, span in groups(table)]
    inside = sum(len(_gap(level)) * (span - 1) for span in spans)
    return sum(_widths(table, level)) + inside + len(BETWEEN) * (len(spans) - 1)
