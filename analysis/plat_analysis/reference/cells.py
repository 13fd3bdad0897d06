"""The cells of a table beside those of its reference: the mean of earlier runs, and where one more run is expected.

A run of the report that is in the reference itself is left out of it, so that a run is always compared with others.
A run is expected around the level of its own build of the base model (`statistics.prediction`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plat_analysis.reference.expected import Expected, expected
from plat_analysis.reference.runs import Reference
from plat_analysis.reference.same_run import SameRuns, same_runs
from plat_analysis.results.grid import Grid
from plat_analysis.results.pairs import PERCENT, QUANTITIES, PairedCell, Side
from plat_analysis.results.published import AVERAGE
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

    def __init__(self, grid: Grid, reference: Reference) -> None:
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
        columns = [self._values(self._cells[row, name], quantity) for name in names]
        own = [self.grid.cells[row, name].by_replicate(quantity) for name in names]
        wanted = [dict.fromkeys(self.grid.cells[row, name].baseline.runs, 0.0) for name in names]
        values, more = _means(columns), _means(own) or _means(wanted)
        rounding = float(np.sqrt(sum(self._cells[row, name].rounding(quantity) ** 2 for name in names))) / len(names)
        value = self.grid.estimate(row, column, quantity).value
        limits = (0.0, PERCENT) if QUANTITIES[quantity][0] is None else None  # of a success rate, not of a change
        return expected(values, value, more, rounding, limits)

    def counts(self) -> list[Count]:
        """How many cells lie outside their range, for each of COUNTED; cells made of the same runs count once."""
        counts = []
        for quantity in COUNTED:
            cells = {}
            for row, column in self.grid.cells:
                cell = self.expected(row, column, quantity)
                if cell.own is not None and cell.low is not None:
                    cells[self.grid.cells[row, column][quantity].run_ids] = cell.outside
            counts.append(Count(quantity, sum(cells.values()), len(cells)))
        return counts

    def same_runs(self) -> SameRuns:
        """The table's own runs beside those of the same id in the reference."""
        return same_runs([(cell, self._cells[key]) for key, cell in self.grid.cells.items()])

    def without_range(self) -> int:
        """How many cells have runs in the reference, but too few for a range."""
        cells = [self.expected(row, column, "peak") for row, column in self.grid.cells]
        return sum(cell.mean is not None and cell.low is None for cell in cells)

    def _values(self, cell: PairedCell, quantity: str) -> dict[Replicate, float]:
        """The values of the reference, without those of runs that are in the report, too."""
        sides = (cell.baseline, cell.treatment)
        own = {replicate for side in sides for replicate, run in side.runs.items() if run.id in self._own_ids}
        return {replicate: value for replicate, value in cell.by_replicate(quantity).items() if replicate not in own}


def more_than_chance(counts: Sequence[Count]) -> bool:
    """Whether one of the counts is larger than chance explains, at ERROR for all of them together (Bonferroni)."""
    return any(count.probability < ERROR / len(counts) for count in counts)


def _beside(cell: PairedCell, reference: Reference) -> PairedCell:
    """The cell that the runs of the reference make: those of the settings of either side."""
    return PairedCell(
        cell.row, cell.column, _beside_side(cell.baseline, reference), _beside_side(cell.treatment, reference)
    )


def _beside_side(side: Side, reference: Reference) -> Side:
    views = {view.id: view for own in side.runs.values() for view in reference.beside(own.run)}
    return Side.of(reference.results, {view.replicate: view for view in views.values()})


def _means(columns: Sequence[dict[Replicate, float]]) -> dict[Replicate, float]:
    """The mean over the columns for each replicate that all of them have."""
    if not columns:
        return {}
    return {
        replicate: float(np.mean([column[replicate] for column in columns]))
        for replicate in columns[0]
        if all(replicate in column for column in columns)
    }
