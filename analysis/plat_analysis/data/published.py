"""Read a paper's printed numbers and their known contradictions from `experiments/papers/<paper>.yaml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment

AVERAGE = "average"
DELTA = "delta"  # names the published change of a cell


@dataclass(frozen=True)
class Discrepancy:
    """Hold a known contradiction of the publication, or a remark on it.

    cell    (row, column) where it concerns one printed number
    column  where it concerns a whole column
    row     where it concerns a whole row
    """

    text: str
    cell: tuple[str, str] | None = None
    column: str | None = None
    row: str | None = None

    def concerns(self, shown: Sequence[tuple[str, str]]) -> bool:
        """Return True if a table with these (row, column) cells shows the contradicting numbers.

        A discrepancy without `cell`, `column` and `row` concerns every table.
        """
        if self.cell is not None:
            return any(PrintedTable.same(self.cell, cell) for cell in shown)
        if self.row is not None:
            return any(_plain(self.row) == _plain(row) for row, _ in shown)
        return self.column is None or any(_plain(self.column) == _plain(column) for _, column in shown)


class PrintedTable:
    """Hold the numbers of one table or figure of the paper, in the paper's unit, by names.

        printed.number("PPO", "sokoban")              12.9, the cell of Table 4
        printed.number("PPO", "sokoban", DELTA)       16.0, its change
        printed.number("64x2", "top_p", "step time")  64.9

    The order of names does not matter. Only letters (of either case), digits and dots count: `Top-p` is `top_p`.
    """

    def __init__(self, key: str | None, numbers: Mapping[frozenset[str], float], sections: Mapping[str, str]) -> None:
        self.key = key
        self._numbers, self._sections = numbers, sections

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def number(self, *names: str) -> float | None:
        """Return the number printed under all of these names, e.g. a row and a column; None if there is none."""
        return self._numbers.get(frozenset(map(_plain, filter(None, names))))

    def for_row(self, row: str, *names: str) -> float | None:
        """Return the printed number of `row` and these names; if there is none, of the names alone; else None."""
        own = self.number(row, *names)
        return own if own is not None else self.number(*names)

    def change(self, row: str, columns: Sequence[str]) -> float | None:
        """Return the published change of a row on average over some columns; None if a needed change is not printed.

        It is the printed average if these are all columns, two or more, that have one; else the mean of their changes.
        """
        plain, fixed = {_plain(column) for column in columns}, {_plain(row), DELTA}
        printed = set().union(*(names - fixed for names in self._numbers if fixed < names)) - {AVERAGE}
        average = self.number(row, AVERAGE, DELTA)
        if len(plain) > 1 and plain == printed and average is not None:
            return average
        changes = [self.number(row, column, DELTA) for column in columns]
        known = [change for change in changes if change is not None]
        return sum(known) / len(known) if known and len(known) == len(changes) else None

    def section(self, row: str) -> str:
        """Return the block of the table in which the paper prints this row, or ""."""
        return self._sections.get(_plain(row), "")

    @staticmethod
    def same(cell: tuple[str, str], other: tuple[str, str]) -> bool:
        """Return True if two (row, column) names mean the same cell, without regard to case and spaces."""
        return tuple(map(_plain, cell)) == tuple(map(_plain, other))


def _plain(name: str) -> str:
    return "".join(character for character in str(name).lower() if character.isalnum() or character == ".")


def printed_table(experiment: Experiment, key: str | None) -> PrintedTable:
    """Return the paper's table of that key, e.g. `table4`; without a key, the one that `source` names.

    Return an empty table if no key is given and `source` names none. Raises SpecError if the file has no table `key`.

    The YAML has `tables: {<key>: {rows: {<row>: content}}}`. A row is a list of cells along `columns`, or a mapping of
    names to cells, which may be nested; it may have a `section`. A cell is a number, `[value, change]` or
    `{value: .., delta: ..}`.
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
            fix=f"one of: {', '.join(sorted(map(str, tables))) or 'none: add `tables:`'}",
        )
    table = tables[key]
    columns = [str(column) for column in table.get("columns", [])]
    numbers: dict[frozenset[str], float] = {}
    sections = {}
    for row, content in (table.get("rows") or table.get("cells") or {}).items():
        if isinstance(content, dict):
            if content.get("section"):
                sections[_plain(row)] = str(content["section"])
            content = {name: cell for name, cell in content.get("cells", content).items() if name != "section"}
        elif isinstance(content, list | tuple):
            content = dict(zip([*columns, AVERAGE], content, strict=False))
        numbers |= _numbers(content, (str(row),))
    return PrintedTable(key, numbers, sections)


def _numbers(content: Any, names: tuple[str, ...]) -> dict[frozenset[str], float]:
    """Return the numbers below these names. A mapping with a change is one cell; any other holds cells by name."""
    parts: dict[str, Any] = {"": content}
    if isinstance(content, dict):
        delta = content.get(DELTA, content.get("change"))
        value = next((content[name] for name in ("value", "none", "baseline") if name in content), None)
        if delta is None and "value" not in content:
            inner = [_numbers(cell, (*names, str(name))) for name, cell in content.items()]
            return {key: number for numbers in inner for key, number in numbers.items()}
        parts = {"": value, DELTA: delta}
    elif isinstance(content, list | tuple) and 0 < len(content) <= 2:
        parts = dict(zip(("", DELTA), content, strict=False))
    known = {name: part for name, part in parts.items() if part is not None}
    key = frozenset(map(_plain, names))
    return {key | ({name} if name else frozenset()): float(part) for name, part in known.items()}


def discrepancies(experiment: Experiment, key: str | None) -> list[Discrepancy]:
    """Return known contradictions: those that list `key` under `artifacts`, and those that list no artifact."""
    known = []
    for entry in (experiment.paper_data or {}).get("discrepancies", []):
        artifacts = _artifacts(entry)
        if artifacts is not None and key not in artifacts:
            continue
        cell = entry.get("cell")
        if isinstance(cell, dict):
            cell = (cell.get("row"), cell.get("column"))
        sides = [("paper", entry.get("paper")), ("released code", entry.get("repo", entry.get("released")))]
        both = "; ".join(f"{who}: {what}" for who, what in sides if what not in (None, "", "-"))
        text = entry.get("text") or f"{entry.get('topic', 'Contradiction')} — {both}."
        column, row = (str(entry[name]) if entry.get(name) else None for name in ("column", "row"))
        known.append(Discrepancy(text, (str(cell[0]), str(cell[1])) if cell else None, column, row))
    return known


def contradictions(experiment: Experiment) -> list[str]:
    """Return the contradictions that concern an experiment's `source` or the whole paper, as sentences."""
    entries = (experiment.paper_data or {}).get("discrepancies", [])
    listed = (artifact for entry in entries for artifact in _artifacts(entry) or ())
    key = next((artifact for artifact in listed if _plain(artifact) == _plain(experiment.source or "")), None)
    return [entry.text for entry in discrepancies(experiment, key)]


def _artifacts(entry: Mapping[str, Any]) -> list[str] | None:
    """Return the artifacts that a contradiction concerns; None: every one."""
    named = entry.get("artifacts", entry.get("tables", entry.get("applies_to")))
    return [named] if isinstance(named, str) else named
