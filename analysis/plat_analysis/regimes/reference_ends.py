"""The reference of the table of ends: what earlier runs of the same settings came to, quantity by quantity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from plat_analysis.artifact import Cell as Shown
from plat_analysis.artifact import Note, Row, Table
from plat_analysis.contrasts.cell import Cell
from plat_analysis.contrasts.contrast import Contrast
from plat_analysis.contrasts.side import Side
from plat_analysis.reference.expected import expected
from plat_analysis.reference.runs import Reference, reference_of
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

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment


class EndsReference:
    """Adds to the table what its reference says; where there is none, the reason alone.

    cell     the runs of the table
    metrics  what is read of the runs of the reference
    """

    def __init__(self, experiment: Experiment, cell: Cell, metrics: set[str]) -> None:
        self.experiment = experiment
        self.reference = reference_of(experiment, metrics, tables=True)
        self.cell = None if self.reference is None else self._beside(cell, self.reference)
        self.own = list(next(iter(cell.sides.values())).runs)
        self.is_empty = self.cell is None or not self.cell.wanted

    def _beside(self, cell: Cell, reference: Reference) -> Cell:
        """The runs of the reference of the settings of either condition, without those of the report itself."""
        own = {run.id for run in self.experiment.runs}
        views = {
            condition: [view for run in side.runs.values() for view in reference.beside(run.run)]
            for condition, side in cell.sides.items()
        }
        sides = {
            condition: Side(reference.results, {view.replicate: view for view in found if view.id not in own})
            for condition, found in views.items()
        }
        return Cell(cell.row, cell.column, sides)

    def lines(self, contrasts: Mapping[str, Contrast], own: Mapping[str, Estimate], digits: int) -> list[Row]:
        """The lines `reference` and `range` of a quantity, one cell for each of its columns."""
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
        """Add to the caption and the notes what the lines are, and why there are none."""
        table.notes += reference_notes(self.experiment, self.reference is not None and self.is_empty)
        if self.reference is None or self.is_empty:
            return
        table.caption += reference_caption(self.experiment)
        if any(cell.text.startswith(TOO_FEW) for row in table.rows for cell in row.cells):
            table.notes.append(Note(WHY_TOO_FEW))
        if any(cell.mark == OUTSIDE for row in table.rows for cell in row.cells):
            table.notes.append(
                Note(
                    "outside the reference range. One cell of twenty is by chance; cells of one run go together.",
                    OUTSIDE,
                )
            )
