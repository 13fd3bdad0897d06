"""How many seeds decide a claim: the power of a one-sided t-test, from the spread between the seeds there are."""

from __future__ import annotations

from collections.abc import Sequence

from plat_analysis.statistics.intervals import TINY
from plat_analysis.statistics.replicates import MIN_UNITS

POWER = 0.8  # probability that all rows of a claim are shown at once, where every true effect has the supposed size
MOST = 1000  # no more seeds than this are considered
CERTAIN = 35.0  # standard errors; a larger effect is always shown, and scipy's distribution gives NaN near 40


def power(seeds: int, size: float, spread: float, level: float) -> float:
    """Probability that a one-sided t-test at `level` shows an effect of `size` points to be above zero, with that
    standard deviation between seeds."""
    from scipy.special import nctdtr, stdtrit

    if spread <= 0:
        return 1.0
    noncentrality = min(size * seeds**0.5 / spread, CERTAIN)
    return 1.0 - float(nctdtr(seeds - 1, noncentrality, stdtrit(seeds - 1, 1 - level)))


def seeds_needed(rows: Sequence[tuple[float, float]], level: float) -> int:
    """The smallest number of seeds, from three on, that shows every row at once with probability `POWER`.

    rows   (size, spread) of each row, in points
    level  one-sided, of the test of one row
    `MOST` + 1 where not even `MOST` seeds do.
    """
    power_of_row = 1 - (1 - POWER) / max(1, len(rows))
    hardest = min(rows, key=lambda row: row[0] / max(row[1], TINY))  # power rises with size over spread
    low, high = MIN_UNITS, MOST + 1
    while low < high:
        middle = (low + high) // 2
        if power(middle, *hardest, level) >= power_of_row:
            high = middle
        else:
            low = middle + 1
    return low
