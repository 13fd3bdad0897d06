"""Compare the cells of a table with those of its reference: the mean of earlier runs, and the range of one more run.

Runs of the report are left out of the reference, so that a run is always compared with others. Runs that are in both,
but were computed on different machines, are compared with the reference's run of the same id, and with those of the
same build and another seed. Where results are portable, a run is near the former: both deviate alike from the mean of
other seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plat_analysis.contrasts.cell import Cell, Side, common_means, mean_rounding
from plat_analysis.contrasts.comparison import Compared
from plat_analysis.data.published import AVERAGE
from plat_analysis.quantities.quantity import SUCCESSES
from plat_analysis.reference.reference_runs import Reference
from plat_analysis.statistics.intervals import LEVEL
from plat_analysis.statistics.replicates import Replicate, chance_of_as_many, grouped, prediction_interval, too_few

ROUNDING = 1e-9  # tolerance at the ends of a range


@dataclass(frozen=True)
class Expected:
    """Hold the reference of one value.

    mean       over its `runs` earlier runs (or pairs of runs); None if there are none
    low, high  the range in which the report's `own` value is expected; None with too few runs
    lacking    if there are too few: how many there are of the needed runs (`4 of 5`) or builds (`1 of 3 builds`)
    """

    mean: float | None
    low: float | None
    high: float | None
    runs: int
    own: float | None
    lacking: str = ""

    @property
    def outside(self) -> bool:
        """Return True if `own` lies outside the range; False if either does not exist."""
        if self.own is None or self.low is None or self.high is None:
            return False
        return not self.low - ROUNDING <= self.own <= self.high + ROUNDING


def expected(
    values: Mapping[Replicate, float],
    own: float | None,
    more: Iterable[Replicate],
    rounding: float = 0.0,
    limits: tuple[float, float] | None = None,
) -> Expected:
    """Return where the mean of further runs is expected, around the level of their builds (`statistics.prediction`).

    values    the values of the earlier runs; with too few, only the range is missing
    own       the value of the further runs, which is only passed on; None if there is none yet
    more      the further runs
    rounding  standard deviation of the rounding of one value
    limits    clip the range
    """
    if not values:
        return Expected(None, None, None, 0, own)
    by_build = grouped(values, 0)
    counts = Counter(replicate.build for replicate in more)
    found = prediction_interval(by_build, counts, rounding)
    builds = [build for build in counts if build in by_build] or list(by_build)
    if found is None:
        mean = float(np.mean([np.mean(by_build[build]) for build in builds]))
        return Expected(mean, None, None, len(values), own, too_few(by_build, counts))
    mean, low, high = found
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    return Expected(mean, low, high, len(values), own)


COUNTED = ("peak", "delta")  # quantities whose cells are counted separately; others come from the same runs
ERROR = 0.05  # probability of a false "more than chance", over both counts together


@dataclass(frozen=True)
class Count:
    """Hold how many of the `cells` with a range and a value lie outside their range."""

    quantity: str
    outside: int
    cells: int

    @property
    def expected(self) -> float:
        """Return the mean number of cells outside by chance."""
        return (1 - LEVEL) * self.cells

    @property
    def probability(self) -> float:
        """Return the probability of at least as many cells outside by chance."""
        return chance_of_as_many(self.outside, self.cells)


class ReferenceCells:
    """Give `expected(row, column, quantity)` for the cells of a grid, averages over the columns included."""

    def __init__(self, grid: Compared, reference: Reference) -> None:
        self.grid = grid
        self._own_ids = {run.id for run in grid.results.runs}
        self._cells = {key: beside(cell, reference) for key, cell in grid.cells.items()}

    @property
    def empty(self) -> bool:
        """Return True if the reference has no peak for any cell, apart from the report's own runs."""
        return not any(self._values(cell, "peak") for cell in self._cells.values())

    def expected(self, row: str, column: str, quantity: str) -> Expected:
        """Return the mean of the reference, and the range expected for the mean of the report's runs in the cell.

        These are the cell's runs with a value; if there are none, its planned ones. `column` may be AVERAGE, and
        `quantity` is a key of `Compared.contrasts`.
        """
        names = [cell.column for cell in self.grid.row(row)] if column == AVERAGE else [column]
        contrast, own = self.grid.contrasts[quantity], [self.grid.cells[row, name] for name in names]
        values = common_means([self._values(self._cells[row, name], quantity) for name in names])
        wanted = [dict.fromkeys(cell.sides[self.grid.baseline].runs, 0.0) for cell in own]
        more = common_means([cell.by_replicate(contrast) for cell in own]) or common_means(wanted)
        rounding = mean_rounding([self._cells[row, name] for name in names], contrast)
        return expected(values, self.grid.estimate(row, column, contrast).value, more, rounding, contrast.bounds)

    def counts(self) -> list[Count]:
        """Return the count of each quantity of `COUNTED`; cells made of the same runs count once."""
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
        """Return the table's own runs with those of the same id in the reference."""
        return same_runs([(cell, self._cells[key]) for key, cell in self.grid.cells.items()])

    def without_range(self) -> int:
        """Return how many cells have peaks in the reference, but too few for a range."""
        cells = [self.expected(row, column, "peak") for row, column in self.grid.cells]
        return sum(cell.mean is not None and cell.low is None for cell in cells)

    def _values(self, cell: Cell, quantity: str) -> dict[Replicate, float]:
        """Return the values of the reference, without those of runs that are also in the report."""
        own = {
            replicate for side in cell.sides.values() for replicate, run in side.runs.items() if run.id in self._own_ids
        }
        return {
            replicate: value
            for replicate, value in cell.by_replicate(self.grid.contrasts[quantity]).items()
            if replicate not in own
        }


def more_than_chance(counts: Sequence[Count]) -> bool:
    """Return True if one of the counts is larger than chance explains, at ERROR over all of them (Bonferroni)."""
    return any(count.probability < ERROR / len(counts) for count in counts)


def beside(cell: Cell, reference: Reference, without: Collection[str] = ()) -> Cell:
    """Return a cell with the reference's runs of the same settings, in each condition, except the ids in `without`."""
    views = {
        condition: [view for run in side.runs.values() for view in reference.beside(run.run) if view.id not in without]
        for condition, side in cell.sides.items()
    }
    sides = {c: Side(reference.results, {view.replicate: view for view in found}) for c, found in views.items()}
    return Cell(cell.row, cell.column, sides)


MIN_SAME = 3  # least runs for a correlation
MIN_OTHERS = 2  # least other seeds: one to compare with, and the others to deviate from


@dataclass(frozen=True)
class SameRuns:
    """Hold peaks in percent, one entry for each run of all cells and both conditions.

    own     [run] as computed here
    again   [run] the reference's run of the same id
    others  [run, seed] the reference's runs of the same build and other seeds
    """

    own: list[float]
    again: list[float]
    others: list[list[float]]

    def values(self) -> dict[str, float]:
        """Return correlations of deviations from the mean of other seeds, and mean absolute differences in points.

        The keys are `same_runs` and `same_run_equal` (counts), and `same_run_` and `other_seed_` with `difference` and
        `correlation`. Return {} for fewer than `MIN_SAME` runs, or if a run has fewer than `MIN_OTHERS` other seeds. A
        correlation is left out if deviations do not vary.
        """
        if len(self.own) < MIN_SAME or min(map(len, self.others)) < MIN_OTHERS:
            return {}
        own, again = np.array(self.own), np.array(self.again)
        means = np.array([np.mean(line) for line in self.others])
        to_seeds = [
            (x, y, np.mean(line[:index] + line[index + 1 :]))
            for x, line in zip(own, self.others, strict=True)
            for index, y in enumerate(line)
        ]
        mine, other, level = np.array(to_seeds).T
        values = {
            "same_runs": float(len(own)),
            "same_run_equal": float((own == again).sum()),
            "same_run_difference": float(np.abs(own - again).mean()),
            "same_run_correlation": _correlation(own - means, again - means),
            "other_seed_difference": float(np.abs(mine - other).mean()),
            "other_seed_correlation": _correlation(mine - level, other - level),
        }
        return {name: value for name, value in values.items() if np.isfinite(value)}


def same_runs(cells: list[tuple[Cell, Cell]]) -> SameRuns:
    """Return the runs of (cell, its reference) pairs that both have, by run id, with a peak."""
    found, peak = SameRuns([], [], []), SUCCESSES["peak"]
    for own, earlier in ((side, beside.sides[name]) for cell, beside in cells for name, side in cell.sides.items()):
        ours, theirs = own.measured(peak), earlier.measured(peak)
        for replicate, score in ours.items():
            again = earlier.runs.get(replicate)
            if again is None or again.id != own.runs[replicate].id or replicate not in theirs:
                continue
            others = [s.value for r, s in theirs.items() if r.build == replicate.build and r.seed != replicate.seed]
            found.own.append(peak.factor * score.value)
            found.again.append(peak.factor * theirs[replicate].value)
            found.others.append([peak.factor * value for value in others])
    return found


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    if first.std() == 0 or second.std() == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])
