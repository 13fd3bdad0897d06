"""Compare the peak checkpoint with the base model on the same held-out instances, paired."""

from __future__ import annotations

from plat_analysis.artifact import Cell, Column, Note, Row, Table, estimate_cell, interval, number, provenance, record
from plat_analysis.contrasts.comparison import Compared
from plat_analysis.data.labels import label, model_that_ran
from plat_analysis.statistics.families import starred
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.tables.peak_notes import star_rule

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
