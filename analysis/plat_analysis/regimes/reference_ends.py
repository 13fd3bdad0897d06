"""The reference of the table of ends: what earlier runs of the same settings came to, quantity by quantity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from plat_analysis.artifact import Cell, Note, Row, Table
from plat_analysis.reference.expected import expected
from plat_analysis.reference.runs import reference_of
from plat_analysis.results.runs import Results, RunView
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Replicate
from plat_analysis.tables.reference_lines import (
    OUTSIDE,
    mean_cell,
    range_cell,
    reference_caption,
    reference_notes,
)

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment

Runs = Mapping[Replicate, RunView]
Values = Callable[[Results, Runs, Runs, str], Mapping[str, Mapping[Replicate, float]]]


class EndsReference:
    """Adds to the table what its reference says; where there is none, the reason alone.

    values  (results, untreated, treated, quantity) -> column -> value of each replicate
    """

    def __init__(
        self, experiment: Experiment, untreated: Runs, treated: Runs, metrics: set[str], values: Values
    ) -> None:
        self.experiment, self.values = experiment, values
        self.reference = reference_of(experiment, metrics, tables=True)
        self.untreated, self.treated = self._beside(untreated), self._beside(treated)
        self.own = list(untreated)
        self.is_empty = not (self.untreated or self.treated)

    def _beside(self, runs: Runs) -> dict[Replicate, RunView]:
        """The runs of the reference of the settings of one condition, without those of the report itself."""
        if self.reference is None:
            return {}
        own = {run.id for run in self.experiment.runs}
        views = [view for run in runs.values() for view in self.reference.beside(run.run)]
        return {view.replicate: view for view in views if view.id not in own}

    def lines(self, quantity: str, own: Mapping[str, Estimate], digits: int) -> list[Row]:
        """The lines `reference` and `range` of a quantity, one cell for each of its columns."""
        if self.reference is None or self.is_empty:
            return []
        earlier = self.values(self.reference.results, self.untreated, self.treated, quantity)
        cells = [
            expected(earlier[column], estimate.value, self.own if estimate.seeds else self.own[:1])
            for column, estimate in own.items()
        ]
        return [
            Row((Cell("reference", tone="dim"), *(mean_cell(cell, True, digits) for cell in cells), Cell())),
            Row((Cell("range", tone="dim"), *(range_cell(cell, True, digits) for cell in cells), Cell())),
        ]

    def explain(self, table: Table) -> None:
        """Add to the caption and the notes what the lines are, and why there are none."""
        table.notes += reference_notes(self.experiment, self.reference is not None and self.is_empty)
        if self.reference is None or self.is_empty:
            return
        table.caption += reference_caption(self.experiment)
        if any(cell.mark == OUTSIDE for row in table.rows for cell in row.cells):
            table.notes.append(
                Note(
                    "outside the reference range. One cell of twenty is by chance; cells of one run go together.",
                    OUTSIDE,
                )
            )
