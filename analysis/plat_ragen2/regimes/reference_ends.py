"""Add the reference to the table of ends: the values of earlier runs of the same settings."""

from __future__ import annotations

from collections.abc import Mapping

from plat.spec.expansion.experiment import Experiment
from plat_analysis.artifact import Cell as Shown
from plat_analysis.artifact import Note, Row, Table
from plat_analysis.contrasts.cell import Cell
from plat_analysis.contrasts.contrast import Contrast
from plat_analysis.reference.reference_cells import beside, expected
from plat_analysis.reference.reference_runs import reference_of
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.tables.reference_lines import (
    OUTSIDE,
    TOO_FEW,
    WHY_TOO_FEW,
    mean_cell,
    range_cell,
    reference_caption,
    reference_notes,
)


class EndsReference:
    """Hold the reference of the table of ends; without runs to compare, only a note is added.

    Raises BundleError if the bundle is damaged.

    cell     the runs of the table
    metrics  those that are read of the reference
    """

    def __init__(self, experiment: Experiment, cell: Cell, metrics: set[str]) -> None:
        self.experiment = experiment
        self.reference = reference_of(experiment, metrics, tables=True)
        own = {run.id for run in experiment.runs}
        self.cell = None if self.reference is None else beside(cell, self.reference, without=own)
        self.own = list(next(iter(cell.sides.values())).runs)
        self.is_empty = self.cell is None or not self.cell.wanted

    def lines(self, contrasts: Mapping[str, Contrast], own: Mapping[str, Estimate], digits: int) -> list[Row]:
        """Return the rows `reference` and `range` under one quantity of the table; [] if there is nothing to compare.

        contrasts  column -> what is estimated; it is computed here on the reference's runs
        own        column -> the table's own estimate; each column gets a cell
        digits     decimals of the cells

        `reference` is the mean of the earlier runs. `range` is where the own value is expected (95 % prediction
        interval); it is marked if that value lies outside. A row begins with its name and ends with an empty cell.
        """
        if self.cell is None or self.is_empty:
            return []
        cells = [
            expected(
                self.cell.by_replicate(contrasts[column]), estimate.value, self.own if estimate.seeds else self.own[:1]
            )
            for column, estimate in own.items()
        ]
        return [
            Row((Shown("reference", tone="dim"), *(mean_cell(cell, True, digits) for cell in cells), Shown())),
            Row((Shown("range", tone="dim"), *(range_cell(cell, True, digits) for cell in cells), Shown())),
        ]

    def explain(self, table: Table) -> None:
        """Explain the lines, or why there are none, in the table's caption and notes."""
        table.notes += reference_notes(self.experiment, self.reference is not None and self.is_empty)
        if self.reference is None or self.is_empty:
            return
        table.caption += reference_caption(self.experiment)
        if any(cell.text.startswith(TOO_FEW) for row in table.rows for cell in row.cells):
            table.notes.append(Note(WHY_TOO_FEW))
        if any(cell.mark == OUTSIDE for row in table.rows for cell in row.cells):
            table.notes.append(
                Note(
                    "outside the reference range. By chance, one cell of twenty is; cells of one run are related.",
                    OUTSIDE,
                )
            )
