"""Tabulate any measures of any conditions, with the change from a baseline and the paper's numbers (Tables 5 to 9).

A condition is compared with the baseline, or with the condition that `against` names for it (such as random prompts at
the same number), paired by build and seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis.artifact import (
    Cell,
    Column,
    Marks,
    Note,
    Row,
    Table,
    estimate_cell,
    interval,
    number,
    provenance,
    record,
)
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.cell import Cell as ComparedCell
from plat_analysis.contrasts.cell import Contrast, Estimates, Term, change
from plat_analysis.data.chance import chance_of, valid_of
from plat_analysis.data.labels import label, model_that_ran
from plat_analysis.data.published import PrintedTable, printed_table
from plat_analysis.data.results import Results, spell
from plat_analysis.facets import AxisNames, Facets, Layout
from plat_analysis.quantities.metric import quantity
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds
from plat_analysis.statistics.significance import starred
from plat_analysis.tables.peak_notes import star_rule

Key = tuple[str, str, str]  # row, condition, name of the measure
LEVELS = {"metric", "percent", "digits", "at", "mean_of_last", "median_of_last", "mean"}  # options of a level


@dataclass(frozen=True, kw_only=True)
class Options:
    """Hold the options that lay out the table.

    conditions  the axis whose values are the lines of a block
    rows        axes that make the blocks (default: one block)
    baseline    the condition with which the others are compared (default: the first one)
    against     condition -> another one with which it is compared instead
    """

    conditions: str
    rows: AxisNames = None
    baseline: Any = None
    against: Mapping[str, str] | None = None

    def beforehand(self, results: Results) -> None:
        """Raise the SpecError of `laid_out`."""
        self.laid_out(results)

    def laid_out(self, results: Results) -> tuple[Facets, dict[str, str]]:
        """Return the runs, and condition -> the one with which it is compared; the baseline has one only by `against`.

        Raises SpecError if a named condition does not exist, or compared runs differ in seeds or builds.
        """
        facets = Facets(results, Layout.of(rows=self.rows, conditions=self.conditions))
        partners = _partners(facets, self.baseline, self.against or {})
        for condition, partner in partners.items():
            facets.check_pairs(partner, condition)
        return facets, partners


@takes(Options)
def build(
    results: Results,
    asked: Options,
    *,
    measures: Mapping[str, Any],
    builds: Builds = "random",
    paper: str | None = None,
    title: str = "",
    name: str = "measures",
) -> list[Table]:
    """One table, with a block for each row and a line for each condition.

    measures    name -> the measure of a run (see `plat_analysis.quantities.metric`): `{success: final}`
    builds      about these builds of the base model (fixed), or about such builds (random)
    paper       key of the printed table in the paper's file (default: the one that `source` names, if any)
    """
    facets, partners = asked.laid_out(results)
    quantities = {measure: quantity(given, measure, results) for measure, given in measures.items()}
    shown = _Shown.of(Estimates(facets, builds=builds), quantities, partners)
    table = _table(shown, printed_table(results.experiment, paper), title, name)
    table.notes += [Note(text) for text in _beside(shown, measures)]
    return [table]


@dataclass(frozen=True)
class _Shown:
    """Hold the content of a table: the level of each measure in each condition, and its change from a partner."""

    estimates: Estimates
    quantities: Mapping[str, Quantity]
    partners: Mapping[str, str]
    levels: Mapping[Key, Estimate]
    changes: Mapping[Key, Estimate]

    @classmethod
    def of(cls, estimates: Estimates, quantities: Mapping[str, Quantity], partners: Mapping[str, str]) -> _Shown:
        """Estimate all cells. All changes are one family for the stars; spreads are shared within a measure only."""
        levels: dict[Key, Estimate] = {}
        columns: list[dict[Key, Estimate]] = []
        for measure, of in quantities.items():
            column: dict[Key, Estimate] = {}
            for row in estimates.rows:
                cell = estimates.cells[row, ""]
                for condition in estimates.facets.conditions:
                    levels[row, condition, measure] = cell.estimate(Contrast(Term(condition, of)))
                    if condition in partners and not _same(cell, condition, partners[condition]):
                        changed = cell.estimate(change(of, partners[condition], condition))
                        column[row, condition, measure] = changed
            columns.append(column)
        return cls(estimates, quantities, partners, levels, starred(columns))


def _same(cell: ComparedCell, condition: str, partner: str) -> bool:
    """Return True if two conditions are the same runs, so that no change is possible."""
    ids = [[run.id for run in cell.sides[name].runs.values()] for name in (condition, partner)]
    return bool(ids[0]) and ids[0] == ids[1]


def _partners(facets: Facets, baseline: Any, against: Mapping[str, str]) -> dict[str, str]:
    """Return condition -> the condition with which it is compared. SpecError where one of them does not exist."""
    first = facets.conditions[0] if baseline is None else spell(baseline)
    named = {spell(condition): spell(partner) for condition, partner in against.items()}
    for condition in (first, *named, *named.values()):
        if condition not in facets.conditions:
            axis = " · ".join(facets.layout.conditions)
            what = f"the axis {axis!r} has no value {condition!r}"
            raise SpecError(what, fix=suggest(condition, facets.conditions, "values"))
    return {condition: first for condition in facets.conditions if condition != first} | named


def _table(shown: _Shown, printed: PrintedTable, title: str, name: str) -> Table:
    several = len(set(shown.partners.values())) > 1
    table = Table(
        name=name,
        title=title or shown.estimates.results.heading,
        columns=[
            Column("", numeric=False),
            Column("", numeric=False),
            *(Column(head, measure) for measure in shown.quantities for head in ("", "Δ")),
        ],
        rows=[],
        caption=_caption(shown),
        fine_print=star_rule(shown.changes.values()),
    )
    marks = Marks()
    facets = shown.estimates.facets
    for row in facets.rows:
        model = model_that_ran(shown.estimates.runs(row))
        for index, condition in enumerate(facets.conditions):
            section = " · ".join(filter(None, [facets.row_label(row), model])) if index == 0 and row else ""
            for line, (kind, cells) in enumerate(_lines(shown, printed, row, condition, marks)):
                stub = Cell(facets.condition_label(condition), tone="strong") if line == 0 else Cell()
                opened = section if line == 0 else ""
                table.rows.append(
                    Row((stub, Cell(kind, tone="dim"), *cells), rule=line == 0, section=opened, detail=kind == "95 %")
                )
    table.notes = marks.notes() + [Note(text) for text in _same_runs(shown)]
    if several:
        pairs = (f"{label(condition)} with {label(partner)}" for condition, partner in shown.partners.items())
        table.notes.append(Note(f"Compared: {', '.join(pairs)}."))
    table.records = _records(shown, printed)
    for key, estimate in shown.levels.items():
        if estimate.value is not None:
            table.values["/".join([name, *filter(None, key)])] = estimate.value
    for key, estimate in shown.changes.items():
        if estimate.value is not None:
            table.values["/".join([name, *filter(None, key), "change"])] = estimate.value
    return table


def _beside(shown: _Shown, measures: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each retrieval accuracy: its chance level, and its valid reasonings where they are logged.

    They are measured as the accuracy is, and are means over the runs of each line. Nothing is said where an accuracy is
    compared with another metric, or is no level but, for example, a slope.
    """
    facets, logged, sentences = shown.estimates.facets, set(shown.estimates.results.logged()), []
    for measure, given in measures.items():
        way = dict(given) if isinstance(given, Mapping) else {"metric": given}
        metric = str(way.get("metric"))
        for words, other, digits in (("chance", chance_of(metric), 3), ("valid reasonings", valid_of(metric), 1)):
            if other not in logged or not set(way) <= LEVELS:
                continue
            percent = words == "chance" and way.get("percent", False)  # in the unit of the accuracy
            term = quantity({**way, "metric": other, "percent": percent, "digits": digits})
            found = {
                " ".join(filter(None, [facets.row_label(row), facets.condition_label(condition)])): estimate.value
                for row in shown.estimates.rows
                for condition in facets.conditions
                if (estimate := shown.estimates.cells[row, ""].estimate(Contrast(Term(condition, term)))).value
                is not None
            }
            texts = {line: number(value, 1 if percent else digits) + " %" * percent for line, value in found.items()}
            same = len(set(texts.values())) == 1
            listed = ", ".join(dict.fromkeys(texts.values()) if same else (f"{k} {v}" for k, v in texts.items()))
            sentences += [f"{measure}, {words}: {listed}."] if texts else []
    return sentences


def _same_runs(shown: _Shown) -> list[str]:
    """Return a sentence for each condition that is the same runs as its partner."""
    cells = [shown.estimates.cells[row, ""] for row in shown.estimates.rows]
    return [
        f"{label(condition)} and {label(partner)} are the same runs."
        for condition, partner in shown.partners.items()
        if any(_same(cell, condition, partner) for cell in cells)
    ]


def _lines(
    shown: _Shown, printed: PrintedTable, row: str, condition: str, marks: Marks
) -> list[tuple[str, list[Cell]]]:
    """Return (kind, cells) of a condition: means, their intervals, and the paper's numbers where it prints any."""
    values, bounds, paper = [], [], []
    for measure, of in shown.quantities.items():
        key = (row, condition, measure)
        level, changed = shown.levels[key], shown.changes.get(key)
        values += [_value(level, of, False, marks), Cell() if changed is None else _value(changed, of, True, marks)]
        bounds += [_bounds(level, of, False), Cell() if changed is None else _bounds(changed, of, True)]
        published = printed.number(*key)
        partner = printed.number(row, shown.partners[condition], measure) if changed is not None else None
        gap = None if published is None or partner is None else published - partner
        paper += [
            Cell("" if published is None else number(published, of.digits), tone="published"),
            Cell("" if gap is None else number(gap, of.digits, signed=True), tone="published"),
        ]
    printed_lines = [("paper", paper)] if any(cell.text for cell in paper) else []
    return [("mean", values), *printed_lines, ("95 %", bounds)]


def _value(estimate: Estimate, of: Quantity, signed: bool, marks: Marks) -> Cell:
    cell = estimate_cell(estimate, of.digits, signed, mark=marks.of(estimate.note))
    if signed and of.factor == 1 and cell.tone in ("good", "bad"):  # more of a loss is not good
        return replace(cell, tone="starred")
    return cell


def _bounds(estimate: Estimate, of: Quantity, signed: bool) -> Cell:
    return Cell(interval(estimate, of.digits, signed), tone="dim", title=provenance(estimate))


def _caption(shown: _Shown) -> str:
    percent = [measure for measure, of in shown.quantities.items() if of.factor != 1]
    partners = dict.fromkeys(map(shown.estimates.facets.condition_label, shown.partners.values()))
    units = f" In percent: {', '.join(percent)}." if percent else ""
    pairing = "build and seed" if any(estimate.about for estimate in shown.levels.values()) else "seed"
    changes = f" Δ: the change from {' or '.join(partners)}, paired by {pairing}." if partners else ""
    about = dict.fromkeys(e.units_in_words for e in (*shown.levels.values(), *shown.changes.values()) if e.over)
    bounds = f" 95 %: Student's t over {' and '.join(about)}." if about else ""
    return f"Means over the runs of a condition.{units}{changes}{bounds}"


def _records(shown: _Shown, printed: PrintedTable) -> list[dict[str, Any]]:
    """Return tidy data: one line for each row, condition and measure, and one more for its change."""
    records = []
    for key, level in shown.levels.items():
        row, condition, measure = key
        labels = {"row": row, "condition": condition, "measure": measure}
        records.append({**record(level, **labels, against=""), "paper": printed.number(*key)})
        if (changed := shown.changes.get(key)) is not None:
            partner = shown.partners[condition]
            prints = (printed.number(*key), printed.number(row, partner, measure))
            gap = None if prints[0] is None or prints[1] is None else round(prints[0] - prints[1], 6)
            records.append({**record(changed, **labels, against=partner), "paper": gap})
    return records
