"""The estimates of every row and column of a layout, of their averages, and which of them are starred."""

from __future__ import annotations

from plat_analysis.contrasts.cell import Cell, average
from plat_analysis.contrasts.contrast import Contrast
from plat_analysis.contrasts.side import Side
from plat_analysis.data.published import AVERAGE
from plat_analysis.data.runs import RunView
from plat_analysis.facets import Facets
from plat_analysis.statistics.families import starred
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds


class Estimates:
    """`estimates.cells[row, column]` for every row and column; `estimates.average` is over the columns.

    conditions  those that cells have, with or without runs (default: all of the layout)
    builds      intervals are about these builds of the base model (fixed), or about such builds (random)
    """

    def __init__(self, facets: Facets, conditions: tuple[str, ...] = (), builds: Builds = "random") -> None:
        self.facets, self.results, self.layout = facets, facets.results, facets.layout
        self.rows, self.columns = facets.rows, facets.columns
        names = conditions or tuple(facets.conditions)
        self.cells = {
            (row, column): Cell(
                row, column, {name: Side(facets.results, facets.runs(row, column, name)) for name in names}, builds
            )
            for row in self.rows
            for column in self.columns
        }

    @property
    def averaged(self) -> list[str]:
        """The columns, and their average where there are several."""
        return [*self.columns, *([AVERAGE] if len(self.columns) > 1 else [])]

    def estimate(self, row: str, column: str, contrast: Contrast) -> Estimate:
        """A contrast in one cell, or on average over the columns."""
        return self.average(row, contrast) if column == AVERAGE else self.cells[row, column].estimate(contrast)

    def starred(self, contrast: Contrast) -> dict[tuple[str, str], Estimate]:
        """(row, column) -> Estimate with its star; all cells, averages included, are one family."""
        columns = [
            {(row, column): self.estimate(row, column, contrast) for row in self.rows} for column in self.averaged
        ]
        return {key: estimate for column in starred(columns) for key, estimate in column.items()}

    def row(self, row: str) -> list[Cell]:
        """The cells of a row for which the matrix has runs."""
        return [self.cells[row, column] for column in self.columns if self.cells[row, column].wanted]

    def average(self, row: str, contrast: Contrast) -> Estimate:
        """The mean of a contrast over the columns of a row, with equal weights."""
        return average(self.row(row), contrast)

    def runs(self, row: str) -> list[RunView]:
        """Every wanted run of a row."""
        return [run for cell in self.row(row) for side in cell.sides.values() for run in side.runs.values()]
