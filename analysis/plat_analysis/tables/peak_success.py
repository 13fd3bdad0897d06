"""Table 4: peak validation success per cell, the filter's change, and the published numbers.

Peak = the largest validation success over all evaluations of a run, then the mean over seeds. That maximum is biased
upward, so the peak checkpoint is also scored on held-out instances, as the base model was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plat.spec.expansion.experiment import Experiment
from plat_analysis.artifact import Cell, Column, Note, Row, Table, estimate_cell, interval, number, provenance, record
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.cell import Cell as ComparedCell
from plat_analysis.contrasts.cell import Contrast
from plat_analysis.contrasts.comparison import Compared, Comparison
from plat_analysis.data.labels import label, model_that_ran
from plat_analysis.data.published import AVERAGE, DELTA, Discrepancy, PrintedTable, discrepancies, printed_table
from plat_analysis.data.results import Results
from plat_analysis.quantities.quantity import Fall, fall_after_peak
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Replicate
from plat_analysis.statistics.significance import starred
from plat_analysis.tables.peak_notes import bounds_cell, change_cell, peak_notes, seeds_cell, star_rule, value_cell
from plat_analysis.tables.reference_lines import ReferenceLines

VALUES = ("peak", "delta", "heldout", "heldout_delta", "final", "final_delta")  # logged into the store
MARKS = "abcdefghijklmnopqrstuvwxyz"


@takes(Comparison)
def build(
    results: Results, compared: Comparison, *, paper: str | None = None, name: str = "peak_success"
) -> list[Table]:
    """The main table, and a second one with what was learned over the base model on held-out instances.

    paper      key of the printed table in the paper's file (default: the one that `source` names, if any)
    """
    grid = compared.grid(results)
    printed = printed_table(results.experiment, paper)
    return [_main_table(grid, results.experiment, printed, name), learning_table(grid, name + "_learning")]


def _main_table(grid: Compared, experiment: Experiment, printed: PrintedTable, name: str) -> Table:
    known = discrepancies(experiment, printed.key) if printed else []
    shown = [(row, column) for row in grid.rows for column in grid.averaged]
    contradictions = [d for d in known if d.concerns(shown)]
    marks = {id(d): MARKS[i] for i, d in enumerate([d for d in contradictions if d.cell][: len(MARKS)])}
    changes = grid.starred(grid.contrasts["delta"])
    reference = ReferenceLines(grid, experiment)
    compared = f"{grid.layout.name(grid.treatment)} against {grid.layout.name(grid.baseline)}"
    table = Table(
        name=name,
        title=" · ".join(filter(None, [experiment.source, f"Peak validation success, {compared}"])),
        columns=_columns(grid),
        rows=[],
        caption=_caption(grid) + reference.caption(),
        fine_print=star_rule(changes.values()),
    )
    section = ""
    for row in grid.rows:
        heading = printed.section(row) or section
        lines = _lines(grid, row, changes, printed, contradictions, marks, reference)
        for index, (kind, cells) in enumerate(lines):
            stub = (row, model_that_ran(grid.runs(row)))[index] if index < 2 else ""
            first = Cell(stub, tone="strong" if index == 0 else "dim", title=row)
            opened = heading if index == 0 and heading != section else ""
            line = (first, Cell(kind, tone="dim"), *cells)
            table.rows.append(Row(line, rule=index == 0, section=opened, detail=kind not in ("peak", "paper")))
        section = heading
    table.notes = reference.notes() + peak_notes(grid, experiment, contradictions, marks)
    table.records = _records(grid, changes, printed, reference)
    table.values = {f"{name}/{key}": value for key, value in reference.values().items()}
    for row, column in shown:
        for quantity in VALUES:
            value = grid.estimate(row, column, grid.contrasts[quantity]).value
            if value is not None:
                table.values[f"{name}/{row}/{column}/{quantity}"] = value
    return table


def _columns(grid: Compared) -> list[Column]:
    groups = [label(column) for column in grid.averaged]
    treatment = label(grid.treatment)
    titles = (shortened(label(grid.baseline), 12), f"Δ {treatment}" if len(treatment) <= 6 else "Δ")  # narrow
    pairs = [Column(*heads) for group in groups for heads in ((titles[0], group, True, "rate"), (titles[1], group))]
    return [Column("", numeric=False), Column("", numeric=False), *pairs]


def _lines(
    grid: Compared,
    row: str,
    changes: Mapping[tuple[str, str], Estimate],
    printed: PrintedTable,
    contradictions: list[Discrepancy],
    marks: dict[int, str],
    reference: ReferenceLines,
) -> list[tuple[str, list[Cell]]]:
    """Return (kind, cells) of one variant: peak, the paper's, the peak's interval and reference, held-out, final, its
    interval, and seeds where some are missing.
    """

    def pick(quantity: str) -> list[Estimate]:
        return [grid.estimate(row, column, grid.contrasts[quantity]) for column in grid.averaged]

    def interleave(first: list[Cell], second: list[Cell]) -> list[Cell]:
        return [cell for pair in zip(first, second, strict=True) for cell in pair]

    peak, delta = pick("peak"), [changes[row, column] for column in grid.averaged]
    heldout, heldout_delta, final, final_delta = (pick(q) for q in ("heldout", "heldout_delta", "final", "final_delta"))
    falls = [_fallen(grid, row, column) for column in grid.averaged]
    lines = [
        ("peak", interleave([value_cell(e, "strong") for e in peak], [change_cell(e) for e in delta])),
        *([("paper", _paper_cells(grid, row, printed, contradictions, marks))] if printed else []),
        ("95 %", interleave([bounds_cell(e) for e in peak], [bounds_cell(e, signed=True) for e in delta])),
        *reference.lines(row),
        ("held-out", interleave([value_cell(e) for e in heldout], [change_cell(e) for e in heldout_delta])),
        (
            "final",
            interleave(
                [value_cell(e, fallen=untreated) for e, (untreated, _) in zip(final, falls, strict=True)],
                [change_cell(e, fallen=treated) for e, (_, treated) in zip(final_delta, falls, strict=True)],
            ),
        ),
    ]
    if any(estimate.low is not None for estimate in [*final, *final_delta]):
        bounds = interleave([bounds_cell(e) for e in final], [bounds_cell(e, signed=True) for e in final_delta])
        lines.append(("final 95 %", bounds))
    treated = pick("peak_treated")
    if any(e.wanted > 1 and not e.complete for e in [*peak, *treated, *delta]):
        lines.append(("seeds", interleave([seeds_cell(e) for e in peak], [seeds_cell(e) for e in delta])))
    return lines


def _paper_cells(
    grid: Compared, row: str, printed: PrintedTable, contradictions: list[Discrepancy], marks: dict[int, str]
) -> list[Cell]:
    """Return the paper's cells of a variant, marked where it contradicts itself or its code."""
    cells = []
    for column in grid.averaged:
        concerning = [d for d in contradictions if d.cell and printed.same(d.cell, (row, column))]
        mark = "".join(marks.get(id(d), "") for d in concerning)
        cells += [
            Cell(number(printed.number(row, column)), tone="published"),
            Cell(number(printed.number(row, column, DELTA), signed=True), tone="published", mark=mark),
        ]
    return cells


def _fallen(grid: Compared, row: str, column: str) -> tuple[list[Fall], list[Fall]]:
    """Return the falls after the peak in a cell, without and with the treatment; none for an average."""
    if column == AVERAGE:
        return [], []
    cell = grid.cells[row, column]
    both = [
        [fall for run in side.runs.values() if not run.missing and (fall := fall_after_peak(grid.results, run))]
        for side in (cell.sides[grid.baseline], cell.sides[grid.treatment])
    ]
    return both[0], both[1]


def _caption(grid: Compared) -> str:
    untreated, treated = (grid.layout.name(condition) for condition in (grid.baseline, grid.treatment))
    return (
        f"Success in percent ({untreated}), and its change in points ({treated}). “peak” is the largest validation "
        "success over all evaluations (mean over seeds). “held-out” is the success of this peak checkpoint on a second "
        "set of instances, which has no upward bias of a maximum. “final” is the success of the last checkpoint: "
        f"held-out success if it was measured, else validation success."
    )


def _records(
    grid: Compared, changes: Mapping[tuple[str, str], Estimate], printed: PrintedTable, reference: ReferenceLines
) -> list[dict[str, Any]]:
    """Return tidy data: one line per row, column and quantity."""
    records = []
    for row in grid.rows:
        cells: list[tuple[str, ComparedCell | None]] = [*((c.column, c) for c in grid.row(row)), (AVERAGE, None)]
        for column, cell in cells:
            level, change = printed.number(row, column), printed.number(row, column, DELTA)
            treated = None if level is None or change is None else round(level + change, 6)
            paper = {"peak": level, "delta": change, "peak_treated": treated}
            for quantity, contrast in grid.contrasts.items():
                estimate = grid.estimate(row, column, contrast) if cell else grid.average(row, contrast)
                if quantity == "delta":
                    estimate = changes.get((row, column), estimate)
                line = record(estimate, row=row, column=column, quantity=quantity)
                line["paper"] = paper.get(quantity)
                line |= reference.record(row, column, quantity)
                line["outcomes"] = _outcomes(grid, cell, contrast) if cell else ""
                records.append(line)
    return records


def _outcomes(grid: Compared, cell: ComparedCell, contrast: Contrast) -> str:
    """Return `baseline seed 0: finished; treatment seed 0: failed:oom`, for the conditions of the contrast."""
    sides = {grid.baseline: "baseline", grid.treatment: "treatment"}
    return "; ".join(
        f"{sides[condition]} {Replicate(None, replicate.seed)}: {run.outcome or run.missing}"
        for condition in dict.fromkeys(term.condition for term in contrast.terms)
        for replicate, run in cell.sides[condition].runs.items()
    )


# Compare the peak checkpoint with the base model on the same held-out instances, paired.

GAINS = ("learned", "learned_treated")


def learning_table(grid: Compared, name: str) -> Table:
    """Return a line for each row and column of the grid: base model, and the gains without and with the treatment.

    `name` is the table's name and the prefix of its values. The base model is taken from the treated runs if the others
    have none.
    """
    baseline, treatment = (grid.layout.name(c) for c in (grid.baseline, grid.treatment))
    gains = _starred_gains(grid)
    table = Table(
        name=name,
        title="What training taught: peak checkpoint against base model, held-out instances",
        columns=[
            Column("", numeric=False),
            Column("", numeric=False),
            Column("base model"),
            Column("gain", baseline),
            Column("95 %", baseline),
            Column("gain", treatment),
            Column("95 %", treatment),
        ],
        rows=[],
        caption="Success of the base model in percent, and points gained by its peak checkpoint on the same instances.",
        fine_print=star_rule(gains.values()),
        notes=[Note("The base model is shared by all tasks of a size; gains are paired by instance, or by seed.")],
        printed=False,
    )
    for row in grid.rows:
        for index, cell in enumerate(grid.row(row)):
            stub = Cell(row if index == 0 else "", tone="strong", title=model_that_ran(grid.runs(row)))
            cells = [stub, Cell(label(cell.column))]
            base = cell.estimate(grid.contrasts["base"])
            if base.value is None:
                base = cell.estimate(grid.contrasts["base_treated"])
            cells.append(Cell(number(base.value), title=provenance(base)))
            for quantity in GAINS:
                gain = gains[row, cell.column, quantity]
                cells.append(estimate_cell(gain, signed=True))
                bounds = interval(gain, signed=True) if gain.value is not None else gain.note
                cells.append(Cell(bounds, tone="dim" if gain.value is not None else "missing", title=provenance(gain)))
                table.records.append(record(gain, row=row, column=cell.column, quantity=quantity))
                if gain.low is not None:
                    table.values[f"{name}/{row}/{cell.column}/{quantity}_low"] = gain.low
            table.records.append(record(base, row=row, column=cell.column, quantity="base"))
            table.rows.append(Row(tuple(cells), rule=index == 0))
    return table


def _starred_gains(grid: Compared) -> dict[tuple[str, str, str], Estimate]:
    """Return (row, column, quantity) -> Estimate with its star; all gains of the table are one family."""
    return starred(
        [
            {(row, column, quantity): grid.cells[row, column].estimate(grid.contrasts[quantity]) for row in grid.rows}
            for column in grid.columns
            for quantity in GAINS
        ]
    )
