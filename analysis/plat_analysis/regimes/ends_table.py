"""The table of what the treatment changes by the end of training: start and end of each quantity (`regimes.ends`), and
the paired difference of the ends, beside that of earlier runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from plat_analysis.artifact import (
    Cell,
    Column,
    Note,
    Row,
    Table,
    interval,
    number,
    provenance,
    record,
    short_interval,
    tone_of,
)
from plat_analysis.contrasts.cell import Cell as ComparedCell
from plat_analysis.contrasts.comparison import Compared
from plat_analysis.contrasts.contrast import Contrast
from plat_analysis.contrasts.side import Side
from plat_analysis.data.labels import label
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.regimes.ends import COLUMNS, QUANTITIES, RETURNED, contrasts
from plat_analysis.regimes.reference_ends import EndsReference
from plat_analysis.statistics.families import starred
from plat_analysis.statistics.intervals import Estimate

CAPTION = (
    "Means over seeds; the difference is {treatment} minus {baseline}, paired by seed. "
    "Starred: not zero by Student's t and by flips of signs, with the error over the table held at 5 % (Holm), from "
    "five seeds on; the intervals are the plain 95 % ones of single cells{about}, from three on."
)
MEASURED = (
    "Success and moves: of the first and the last evaluation, on the validation instances. Return, on which policies "
    "are trained: from the first evaluation to the mean of the last {returned}. Retrieval, H(Z|X) and reasonings that "
    "parse: of the first and the last probe of fresh reasonings, where there are probes. All else: on the batches of "
    "training, from the first measurement to the mean of the last {last}."
)


def differences_table(
    compared: Compared, scope: str, last: int, name: str, reference: EndsReference | None = None
) -> Table:
    """Change from start to end in each condition, and the paired difference of the ends; with a reference, beside those
    of earlier runs."""
    estimates: dict[tuple[str, str], Estimate] = {}
    absent: dict[str, str] = {}
    cell, sides = compared.cells["", ""], (compared.baseline, compared.treatment)
    asked = {quantity: contrasts(quantity, scope, last, *sides) for quantity in QUANTITIES}
    for quantity, columns in asked.items():
        end = columns["difference"].of.quantity
        absent[quantity] = "".join(_absent(side, end) for side in cell.sides.values())
        for column, contrast in columns.items():
            note = absent[quantity] if column == "difference" else ""
            estimates[quantity, column] = replace(cell.estimate(contrast), note=note, run_ids=_pairs(cell, contrast))
    return _table(_with_stars(estimates), absent, sides, last, name, asked, reference)


def _pairs(cell: ComparedCell, contrast: Contrast) -> tuple[str, ...]:
    """The ids of the runs behind a contrast, pair by pair."""
    conditions = dict.fromkeys(term.condition for term in contrast.terms)
    return tuple(cell.sides[condition].runs[r].id for r in cell.pairs(contrast) for condition in conditions)


def _absent(side: Side, end: Quantity) -> str:
    """`name: reason` of every run that is left out, each followed by `; `."""
    return "".join(sorted(f"{side.runs[r].run.name}: {why}; " for r, why in side.absent(end).items()))


def _with_stars(estimates: Mapping[tuple[str, str], Estimate]) -> dict[tuple[str, str], Estimate]:
    """The estimates with their stars. All cells of the table are one family for Holm's procedure. Quantities have
    different units, so no quantity's spread is used for another (each is a column of its own here)."""
    return {
        key: estimate for cell in starred([{key: e} for key, e in estimates.items()]) for key, estimate in cell.items()
    }


def _table(
    estimates: Mapping[tuple[str, str], Estimate],
    absent: Mapping[str, str],
    sides: tuple[str, str],
    last: int,
    name: str,
    asked: Mapping[str, Mapping[str, Contrast]],
    reference: EndsReference | None,
) -> Table:
    """The table of these estimates; `absent` says of each quantity which runs are left out of it."""
    baseline, treatment = sides
    table = Table(
        name=name,
        title=f"What {label(treatment)} changes by the end of training",
        columns=[
            Column("", numeric=False),
            Column("end − start", label(baseline)),
            Column("end − start", label(treatment)),
            Column("of the ends", "difference"),
            Column("seeds"),
        ],
        rows=[],
        caption=CAPTION.format(treatment=label(treatment), baseline=label(baseline), about=_about(estimates)),
        notes=[Note(MEASURED.format(last=last, returned=RETURNED))],
    )
    for quantity, (_, title, digits) in QUANTITIES.items():
        values, bounds = [Cell(title, tone="strong")], [Cell("95 %", tone="dim")]
        for column in COLUMNS:
            estimate = estimates[quantity, column]
            values.append(_value_cell(estimate, digits))
            bounds.append(_bounds_cell(estimate, digits))
            table.records.append(record(estimate, quantity=quantity, what=column))
            if estimate.value is not None:
                table.values[f"{name}/{quantity}/{column}"] = estimate.value
        gap = estimates[quantity, "difference"]
        seeds = Cell(f"{gap.seeds}/{gap.wanted}", tone="dim" if gap.complete else "missing", title=provenance(gap))
        table.rows += [Row((*values, seeds), rule=True), Row((*bounds, Cell()))]
        if reference is not None:
            own = {column: estimates[quantity, column] for column in COLUMNS}
            table.rows += reference.lines(asked[quantity], own, digits)
    table.notes += [Note(text) for text in _left_out(absent)]
    if reference is not None:
        reference.explain(table)
    return table


def _about(estimates: Mapping[tuple[str, str], Estimate]) -> str:
    """`, over seeds, about these 2 builds of the base model`; "" without an interval."""
    meant = dict.fromkeys(f", over {e.over}, about {e.about} of the base model" for e in estimates.values() if e.over)
    return " and".join(meant)


def _value_cell(estimate: Estimate, digits: int) -> Cell:
    return Cell(number(estimate.value, digits, signed=True), tone=tone_of(estimate), title=provenance(estimate))


def _bounds_cell(estimate: Estimate, digits: int) -> Cell:
    bounds = interval(estimate, digits, signed=True)
    if not bounds:
        bounds = {0: "missing", 1: "one seed"}.get(estimate.seeds, f"{estimate.seeds} seeds")
    narrow = short_interval(estimate, signed=True, digits=digits) or bounds
    return Cell(bounds, shorter=(narrow,), tone="dim", title=provenance(estimate))


def _left_out(absent: Mapping[str, str]) -> list[str]:
    """One sentence for each reason, with the quantities that it concerns unless it concerns all."""
    quantities: dict[str, list[str]] = {}
    for quantity, reasons in absent.items():
        if reasons:
            quantities.setdefault(reasons.removesuffix("; "), []).append(QUANTITIES[quantity][1])
    everything = len(QUANTITIES)
    about = {r: "" if len(titles) == everything else f" ({', '.join(titles)})" for r, titles in quantities.items()}
    return [f"Left out{about[reasons]}: {reasons}." for reasons in quantities]
