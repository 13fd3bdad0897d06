"""The runs of an experiment laid out as rows x columns x two conditions, in the order of the experiment file."""

from __future__ import annotations

from dataclasses import dataclass

from plat.errors import SpecError
from plat_analysis.results.labels import label
from plat_analysis.results.pairs import PairedCell, Side, average
from plat_analysis.results.places import add_run, check_same_replicates
from plat_analysis.results.published import AVERAGE
from plat_analysis.results.runs import Results, RunView
from plat_analysis.statistics.families import starred
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds, Replicate

Sides = dict[tuple[str, str, str], dict[Replicate, RunView]]


@dataclass(frozen=True)
class Layout:
    """Which axes make the rows and the columns, and which two values of which axis (`pair`) are compared."""

    rows: tuple[str, ...]
    columns: str
    pair: str
    baseline: str
    treatment: str

    def name(self, condition: str) -> str:
        """A condition in print: `Top-p`, or `filter.value = 0.9`."""
        return label(condition) if self.pair == "filter" else f"{self.pair} = {condition}"


class Grid:
    """A paired cell for every row and column: `grid.cells[row, column]`. `grid.average` is over columns."""

    def __init__(self, results: Results, layout: Layout, builds: Builds = "random") -> None:
        self.results, self.layout = results, layout
        sides = _sides(results, layout)
        self.rows = list(dict.fromkeys(row for row, _, _ in sides))
        self.columns = list(dict.fromkeys(column for _, column, _ in sides))
        self.cells = {
            (row, column): PairedCell(
                row,
                column,
                Side.of(results, sides.get((row, column, layout.baseline), {})),
                Side.of(results, sides.get((row, column, layout.treatment), {})),
                builds,
            )
            for row in self.rows
            for column in self.columns
        }

    @property
    def averaged(self) -> list[str]:
        """The columns, and their average where there are several."""
        return [*self.columns, *([AVERAGE] if len(self.columns) > 1 else [])]

    def estimate(self, row: str, column: str, quantity: str) -> Estimate:
        """A quantity of one cell, or of the average over the columns."""
        return self.average(row, quantity) if column == AVERAGE else self.cells[row, column][quantity]

    def starred(self, quantity: str) -> dict[tuple[str, str], Estimate]:
        """(row, column) -> Estimate with its star; all cells, averages included, are one family."""
        columns = [
            {(row, column): self.estimate(row, column, quantity) for row in self.rows} for column in self.averaged
        ]
        return {key: estimate for column in starred(columns) for key, estimate in column.items()}

    def row(self, row: str) -> list[PairedCell]:
        """The cells of a row for which the matrix has runs."""
        return [self.cells[row, column] for column in self.columns if self.cells[row, column].wanted]

    def average(self, row: str, quantity: str) -> Estimate:
        """The mean of a quantity over the columns of a row, with equal weights."""
        return average(self.row(row), quantity)

    def runs(self, row: str) -> list[RunView]:
        """Every wanted run of a row."""
        sides = [side for cell in self.row(row) for side in (cell.baseline, cell.treatment)]
        return [run for side in sides for run in side.runs.values()]


def _sides(results: Results, layout: Layout) -> Sides:
    """(row, column, condition) -> its runs, in the order of the experiment file."""
    sides: Sides = {}
    for run in results.positions:
        condition = run.axis(layout.pair)
        if condition not in (layout.baseline, layout.treatment):
            continue
        row, column = " · ".join(run.axis(name) for name in layout.rows), run.axis(layout.columns)
        place = f"{row} × {column}, {layout.pair}={condition}"
        add_run(sides.setdefault((row, column, condition), {}), run, place)
    if not sides:
        raise SpecError(
            f"no run has {layout.pair} = {layout.baseline} or {layout.treatment}",
            mend="name an axis of the matrix as `pair`, and two of its values as `baseline` and `treatment`",
        )
    for row, column, _ in sides:
        first, second = (sides.get((row, column, condition), {}) for condition in (layout.baseline, layout.treatment))
        check_same_replicates(first, second, f"{row} × {column}", layout.baseline, layout.treatment)
    return sides
