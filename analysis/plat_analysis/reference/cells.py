"""The cells of a table beside those of its reference: the mean of earlier runs, and where one more run is expected.

A run of the report that is in the reference itself is left out of it, so that a run is always compared with others.
A run is expected around the level of its own build of the base model (`statistics.prediction`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plat_analysis.contrasts.cell import Cell, common_means, mean_rounding
from plat_analysis.contrasts.comparison import Compared
from plat_analysis.contrasts.side import Side
from plat_analysis.data.published import AVERAGE
from plat_analysis.reference.expected import Expected, expected
from plat_analysis.reference.runs import Reference
from plat_analysis.reference.same_run import SameRuns, same_runs
from plat_analysis.statistics.intervals import LEVEL
from plat_analysis.statistics.prediction import chance_of_as_many
from plat_analysis.statistics.replicates import Replicate

COUNTED = ("peak", "delta")  # the quantities whose cells are counted, each for itself; others come from the same runs
ERROR = 0.05  # probability of "more than chance" where there is nothing but chance, over both counts together


@dataclass(frozen=True)
class Count:
    """How many of the `cells` that have a range and a value lie outside, and how likely at least as many are if only
    chance is at work."""

    quantity: str
    outside: int
    cells: int

    @property
    def expected(self) -> float:
        """The number of cells outside that chance gives on average."""
        return (1 - LEVEL) * self.cells

    @property
    def probability(self) -> float:
        return chance_of_as_many(self.outside, self.cells)


class ReferenceCells:
    """`cells.expected(row, column, quantity)` for the cells of a grid, averages over the columns included."""

    def __init__(self, grid: Compared, reference: Reference) -> None:
        self.grid = grid
        self._own_ids = {run.id for run in grid.results.runs}
        self._cells = {key: _beside(cell, reference) for key, cell in grid.cells.items()}

    @property
    def empty(self) -> bool:
        """Whether no cell has any run of the reference."""
        return not any(self._values(cell, "peak") for cell in self._cells.values())

    def expected(self, row: str, column: str, quantity: str) -> Expected:
        """Mean and range of a quantity of QUANTITIES, for one more run, or for the mean of as many as there are."""
        names = [cell.column for cell in self.grid.row(row)] if column == AVERAGE else [column]
        contrast, own = self.grid.contrasts[quantity], [self.grid.cells[row, name] for name in names]
        values = common_means([self._values(self._cells[row, name], quantity) for name in names])
        wanted = [dict.fromkeys(cell.sides[self.grid.baseline].runs, 0.0) for cell in own]
        more = common_means([cell.by_replicate(contrast) for cell in own]) or common_means(wanted)
        rounding = mean_rounding([self._cells[row, name] for name in names], contrast)
        return expected(values, self.grid.estimate(row, column, contrast).value, more, rounding, contrast.bounds)

    def counts(self) -> list[Count]:
        """How many cells lie outside their range, for each of COUNTED; cells made of the same runs count once."""
        counts = []
        for quantity in COUNTED:
            cells = {}
            for row, column in self.grid.cells:
                cell = self.expected(row, column, quantity)
                if cell.own is not None and cell.low is not None:
                    runs = self.grid.estimate(row, column, self.grid.contrasts[quantity]).run_ids
                    cells[runs] = cell.outside
            counts.append(Count(quantity, sum(cells.values()), len(cells)))
        return counts

    def same_runs(self) -> SameRuns:
        """The table's own runs beside those of the same id in the reference."""
        return same_runs([(cell, self._cells[key]) for key, cell in self.grid.cells.items()])

    def without_range(self) -> int:
        """How many cells have runs in the reference, but too few for a range."""
        cells = [self.expected(row, column, "peak") for row, column in self.grid.cells]
        return sum(cell.mean is not None and cell.low is None for cell in cells)

    def _values(self, cell: Cell, quantity: str) -> dict[Replicate, float]:
        """The values of the reference, without those of runs that are in the report, too."""
        own = {
            replicate for side in cell.sides.values() for replicate, run in side.runs.items() if run.id in self._own_ids
        }
        return {
            replicate: value
            for replicate, value in cell.by_replicate(self.grid.contrasts[quantity]).items()
            if replicate not in own
        }


def more_than_chance(counts: Sequence[Count]) -> bool:
    """Whether one of the counts is larger than chance explains, at ERROR for all of them together (Bonferroni)."""
    return any(count.probability < ERROR / len(counts) for count in counts)


def _beside(cell: Cell, reference: Reference) -> Cell:
    """The cell that the runs of the reference make: those of the settings of either side."""
    sides = {condition: _beside_side(side, reference) for condition, side in cell.sides.items()}
    return Cell(cell.row, cell.column, sides)


def _beside_side(side: Side, reference: Reference) -> Side:
    views = {view.id: view for own in side.runs.values() for view in reference.beside(own.run)}
    return Side(reference.results, {view.replicate: view for view in views.values()})
