"""The numbers a paper printed and the contradictions known in them, from `experiments/papers/<paper>.yaml`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment

AVERAGE = "average"


@dataclass(frozen=True)
class Printed:
    """One printed cell, in the paper's unit (percent): the unfiltered value and the filter's change."""

    value: float | None = None
    delta: float | None = None


@dataclass(frozen=True)
class Discrepancy:
    """A known contradiction of the publication, or a remark on it; `cell` is (row, column) when it concerns one printed
    number, `column` the column that it concerns as a whole."""

    text: str
    cell: tuple[str, str] | None = None
    column: str | None = None

    def concerns(self, shown: Sequence[tuple[str, str]]) -> bool:
        """Whether a table with these cells shows what it is about."""
        if self.cell is not None:
            return any(PrintedTable.same(self.cell, cell) for cell in shown)
        return self.column is None or any(_plain(self.column) == _plain(column) for _, column in shown)


class PrintedTable:
    """A table of the paper, by (row, column); `average` is a column. Unknown cells are empty."""

    def __init__(self, key: str | None, cells: dict[tuple[str, str], Printed], sections: dict[str, str]) -> None:
        self.key = key
        self._cells = {(_plain(row), _plain(column)): cell for (row, column), cell in cells.items()}
        self._sections = sections

    def __bool__(self) -> bool:
        return bool(self._cells)

    def cell(self, row: str, column: str) -> Printed:
        """The printed cell; an empty one where the paper has none."""
        return self._cells.get((_plain(row), _plain(column)), Printed())

    def change(self, row: str, columns: Sequence[str]) -> float | None:
        """The published change of a row on average over some columns; None where any of them is not printed.

        The printed average where it is that of just these columns, else the mean of the printed cells.
        """
        plain = {_plain(column) for column in columns}
        printed = {column for (name, column) in self._cells if name == _plain(row)} - {_plain(AVERAGE)}
        if len(plain) > 1 and plain == printed and self.cell(row, AVERAGE).delta is not None:
            return self.cell(row, AVERAGE).delta
        changes = [self.cell(row, column).delta for column in columns]
        known = [change for change in changes if change is not None]
        return sum(known) / len(known) if known and len(known) == len(changes) else None

    def section(self, row: str) -> str:
        """The block of the table in which the paper prints this row, or ""."""
        return self._sections.get(_plain(row), "")

    @staticmethod
    def same(cell: tuple[str, str], other: tuple[str, str]) -> bool:
        """Whether two (row, column) names mean the same cell. Case and spaces do not count: `Dr. GRPO` is `dr.grpo`."""
        return tuple(map(_plain, cell)) == tuple(map(_plain, other))


def _plain(name: str) -> str:
    return "".join(character for character in str(name).lower() if character.isalnum() or character == ".")


def printed_table(experiment: Experiment, key: str | None) -> PrintedTable:
    """The paper's table of that key, e.g. `table4`; without a key, the one that `source` names, if any.

    Accepted in the YAML, under `tables: {<key>: ...}`: `rows: {<row>: {<column>: cell}}` (a row may also be a list
    along `columns`, and may carry a `section`), a cell being `[value, delta]`, `{value: .., delta: ..}` or a number.
    """
    data = experiment.paper_data or {}
    tables = data.get("tables") or {}
    if key is None:
        key = next((name for name in tables if _plain(name) == _plain(experiment.source or "")), None)
        if key is None:
            return PrintedTable(None, {}, {})
    if key not in tables:
        raise SpecError(
            f"the paper's file has no table {key!r}",
            where=f"experiments/papers/{experiment.paper}.yaml",
            mend=f"one of: {', '.join(sorted(map(str, tables))) or 'none: add `tables:`'}",
        )
    table = tables[key]
    columns = [str(column) for column in table.get("columns", [])]
    cells, sections = {}, {}
    for row, content in (table.get("rows") or table.get("cells") or {}).items():
        if isinstance(content, dict):
            if content.get("section"):
                sections[_plain(row)] = str(content["section"])
            inner = content.get("cells", content)
            pairs = [(column, cell) for column, cell in inner.items() if column != "section"]
        else:
            pairs = list(zip([*columns, AVERAGE], content, strict=False))
        for column, cell in pairs:
            cells[(str(row), str(column))] = _cell(cell, f"{key}: {row} × {column}", experiment)
    return PrintedTable(key, cells, sections)


def _cell(content: Any, where: str, experiment: Experiment) -> Printed:
    if content is None:
        return Printed()
    if isinstance(content, dict):
        value = next((content[name] for name in ("value", "none", "baseline") if name in content), None)
        parts = [value, content.get("delta", content.get("change"))]
    else:
        parts = [*content, None] if isinstance(content, list | tuple) else [content, None]
    if not all(part is None or isinstance(part, int | float) for part in parts[:2]):
        raise SpecError(
            f"cannot read the printed cell {content!r}",
            where=f"experiments/papers/{experiment.paper}.yaml, {where}",
            mend="write [value, delta] or {value: .., delta: ..}",
        )
    return Printed(*(None if part is None else float(part) for part in parts[:2]))


def discrepancies(experiment: Experiment, key: str | None) -> list[Discrepancy]:
    """Known contradictions that concern a table: those listing it under `artifacts`, and those that list none."""
    known = []
    for entry in (experiment.paper_data or {}).get("discrepancies", []):
        artifacts = entry.get("artifacts", entry.get("tables", entry.get("applies_to")))
        if artifacts is not None and key not in ([artifacts] if isinstance(artifacts, str) else artifacts):
            continue
        cell = entry.get("cell")
        if isinstance(cell, dict):
            cell = (cell.get("row"), cell.get("column"))
        text = entry.get("text") or _sentence(entry)
        column = entry.get("column")
        known.append(Discrepancy(text, (str(cell[0]), str(cell[1])) if cell else None, str(column) if column else None))
    return known


def _sentence(entry: dict[str, Any]) -> str:
    sides = [("paper", entry.get("paper")), ("released code", entry.get("repo", entry.get("released")))]
    both = "; ".join(f"{who}: {what}" for who, what in sides if what not in (None, "", "-"))
    return f"{entry.get('topic', 'Contradiction')} — {both}."
