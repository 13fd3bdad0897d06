"""Print a report on the terminal. Tables have shorter intervals where it is narrow, and parts where it is too narrow.

Lines are laid out here because columns of rich's table cannot share a heading or a section line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from plat.words.outcomes import FINISHED
from plat_analysis.artifact import Cell, Row, Table
from plat_analysis.report.render import STARRED, groups, stubs
from plat_analysis.report.report import Report

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.text import Text

STYLES = {
    "": "",
    "strong": "bold",
    "dim": "bright_black",
    "good": "bold green",
    "starred": "bold",
    "bad": "bold red",
    "missing": "yellow",
    "published": "cyan",
}
SUPERSCRIPT = str.maketrans("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")
BETWEEN = "   "  # groups


CLAIM_STYLES = {
    "shown": "green",
    "shown_in_part": "yellow",
    "contradicted": "red",
    "not_of_this_size": "red",
    "open": "bright_black",
    "not_enough_data": "bright_black",
}


def print_report(report: Report, console: Console, quiet: bool = False) -> None:
    """Print warnings, the verdicts, unless `quiet` the tables that are `printed`, and failures; no figures."""
    from rich.text import Text

    by_default = not report.experiment.report
    tables = [artifact for artifact in report.artifacts if isinstance(artifact, Table) and not quiet]
    for warning in report.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False, highlight=False)
    _print_verdicts(report, console)
    for table in tables:
        if table.printed:
            print_table(console, compact(table) if by_default else table)
            console.print()
    ends = Counter(run.outcome or run.missing for run in report.results.runs if run.outcome != FINISHED)
    lines = {
        "runs that did not finish: ": [f"{count} {end}" for end, count in ends.items()],
        "on the page: ": [table.title for table in tables if not table.printed],
    }
    for head, parts in lines.items() if by_default and not quiet else ():
        if parts:
            console.print(Text(head + "; ".join(parts), STYLES["dim"]))
    for failure in report.failures:
        console.print(failure.render(), style="red", markup=False, highlight=False)


def _print_verdicts(report: Report, console: Console) -> None:
    from rich.table import Column
    from rich.table import Table as Grid
    from rich.text import Text

    width = max((len(verdict.word) for verdict in report.claims), default=0)
    for verdict in report.claims:
        rows = Grid.grid(Column(justify="right", width=width), Column(), padding=(0, 2, 0, 0))
        rows.add_row(Text(verdict.word, CLAIM_STYLES[verdict.status]), Text(f"{verdict.id}: {verdict.says}"))
        for line in verdict.brief:
            rows.add_row("", Text(line, "bright_black"))
        if reference := report.reference.get(verdict.id):
            rows.add_row("reference", Text(str(reference)))
        console.print(rows)
    if report.claims:
        console.print()


def compact(table: Table) -> Table:
    """Return the table with each interval beside its number, where it has no other lines than these two."""
    if not table.rows or {row.cells[1].text for row in table.rows if len(row.cells) > 1} != {"mean", "95 %"}:
        return table
    rows: list[Row] = []
    for row in table.rows:
        named = [row.cells[0], *row.cells[2:]]
        if row.detail:
            pairs = zip(rows[-1].cells, named, strict=True)
            joined = (
                replace(cell, text=f"{cell.text} {bounds.text}".strip(), shorter=(cell.text,)) for cell, bounds in pairs
            )
            rows[-1] = replace(rows[-1], cells=tuple(joined))
        else:
            rows.append(replace(row, cells=tuple(named)))
    columns = [replace(column, title=column.title or "mean") for column in table.columns[2:]]
    return replace(table, columns=[table.columns[0], *columns], rows=rows)


def print_table(console: Console, table: Table) -> None:
    """Print the longest form that fits the console's width, in parts where even the shortest is too wide.

    Stars are printed with and without colour.
    """
    from rich.text import Text

    levels = 1 + max((len(cell.shorter) for row in table.rows for cell in row.cells), default=0)
    layouts = (_Layout(table, level) for level in range(levels))
    chosen = None
    for chosen in layouts:
        if chosen.width <= console.width:
            break
    assert chosen is not None
    console.print(Text(table.title, style="bold"))
    if table.caption:
        console.print(Text(table.caption, style=STYLES["dim"]), Text(), sep="\n")
    parts = _parts(table, chosen.level, console.width) if chosen.width > console.width else [table]
    for index, part in enumerate(parts):
        if index:
            console.print()
        console.print(_Layout(part, chosen.level).render(), crop=False)
    console.print(_notes(table), end="")


def _parts(table: Table, level: int, width: int) -> list[Table]:
    """Split the groups of columns into tables of at most this width if possible; each repeats the names of the rows."""
    named = stubs(table)
    parts: list[list[int]] = []
    at = 0
    for _, span in groups(table):
        group = [index for index in range(at, at + span) if index >= named]
        at += span
        if parts and _Layout(_only(table, [*parts[-1], *group]), level).width <= width:
            parts[-1] += group
        elif group:
            parts.append([*range(named), *group])
    return [_only(table, part) for part in parts] or [table]


def _only(table: Table, columns: Sequence[int]) -> Table:
    """Return the table with these columns alone."""
    rows = [replace(row, cells=tuple(row.cells[index] for index in columns)) for row in table.rows]
    return replace(table, columns=[table.columns[index] for index in columns], rows=rows)


def _notes(table: Table) -> Group:
    """Return the footnotes, below an empty line; nothing where there are none."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    notes = [Text(f"{n.mark.translate(SUPERSCRIPT)} {n.text}".strip(), style=STYLES["dim"]) for n in table.notes]
    padded = [Padding(note, (0, 0, 0, 1)) for note in notes]
    return Group(Text(), *padded) if notes else Group()


class _Layout:
    """Lay out a table at one level of brevity; 0 is the full text."""

    def __init__(self, table: Table, level: int) -> None:
        self.table, self.level, self.groups = table, level, groups(table)
        self.gap = " " if level > 1 else "  "  # inside a group
        self.titles = [(column.shorter if level > 1 else "") or column.title for column in table.columns]
        stars = [any(row.cells[i].tone in STARRED for row in table.rows) for i in range(len(table.columns))]
        self.texts = [
            [_text(cell, level, star) for cell, star in zip(row.cells, stars, strict=True)] for row in table.rows
        ]
        self.widths = [
            max([len(title), *(len(texts[i]) for texts in self.texts)]) for i, title in enumerate(self.titles)
        ]
        for at, (title, span) in self._starts():  # widen a group to its heading
            self.widths[at] += max(0, len(title) - self._inside(at, span))

    @property
    def width(self) -> int:
        return sum(self._inside(at, span) for at, (_, span) in self._starts()) + len(BETWEEN) * (len(self.groups) - 1)

    def render(self) -> Group:
        """Return the heading and the rows, as lines for `rich` to print."""
        from rich.console import Group
        from rich.text import Text

        table = self.table
        lines: list[Text] = []
        if any(title for title, _ in self.groups):
            heads = [title.rjust(self._inside(at, span)) for at, (title, span) in self._starts()]
            lines.append(Text(BETWEEN.join(heads).rstrip(), style="bold"))
        lines.append(self._line(self.titles, [STYLES["dim"]] * len(table.columns)))
        blocks = not all(row.rule for row in table.rows)
        lines.append(Text("─" * self.width, style=STYLES["dim"]))
        for index, (row, texts) in enumerate(zip(table.rows, self.texts, strict=True)):
            if row.rule and index and blocks:
                lines.append(Text())
            if row.section:
                lines.append(Text(row.section, style="italic cyan"))
            lines.append(self._line(texts, [STYLES[cell.tone] for cell in row.cells]))
        for line in lines:
            line.no_wrap, line.overflow = True, "ignore"  # let a narrow terminal break lines; cut nothing off
        return Group(*lines)

    def _line(self, texts: Sequence[str], styles: Sequence[str]) -> Text:
        from rich.text import Text

        line = Text()
        for at, (_, span) in self._starts():
            for i in range(at, at + span):
                before = (BETWEEN if i else "") if i == at else self.gap
                pad = texts[i].rjust if self.table.columns[i].numeric else texts[i].ljust
                line.append(before).append(pad(self.widths[i]), style=styles[i])
        line.rstrip()
        return line

    def _starts(self) -> Iterator[tuple[int, tuple[str, int]]]:
        at = 0
        for title, span in self.groups:
            yield at, (title, span)
            at += span

    def _inside(self, at: int, span: int) -> int:
        return sum(self.widths[at : at + span]) + len(self.gap) * (span - 1)


def _text(cell: Cell, level: int, starred: bool) -> str:
    """Return a cell's text; cells without a star reserve its space, so that digits stay aligned."""
    star = ("*" if cell.tone in STARRED else " ") if starred and not cell.mark else ""
    return cell.form(level) + cell.mark.translate(SUPERSCRIPT) + star
