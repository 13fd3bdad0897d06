"""How many seeds decide a claim: the power of the test of one row, from the spread between the seeds there are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from plat_analysis.statistics.intervals import MIN_JUDGED, TINY
from plat_analysis.statistics.sign_flips import sign_flip_p

POWER = 0.8  # probability that all rows of a claim are shown at once, where every true effect has the supposed size
MOST = 1000  # no more seeds than this are considered
CERTAIN = 35.0  # standard errors; a larger effect is always shown, and scipy's distribution gives NaN near 40
FEW = 8  # up to so many seeds the sign flips take power that Student's t would have
DRAWN = 1000  # samples that are drawn where a formula does not have the power
SURE = 0.9  # probability with which the range of a spread holds the true one


def power(seeds: int, size: float, spread: float, level: float) -> float:
    """Probability that a row is shown to be above zero at a one-sided `level`, with an effect of `size` points and that
    standard deviation between seeds, which is normal.

    Of a few seeds by simulation with a fixed seed, as the sign flips count there; of more by Student's t alone.
    """
    if spread <= 0:
        return 1.0
    of_t = _power_of_t(seeds, size / spread, level)
    return of_t if seeds > FEW else min(of_t, _power_of_both(seeds, size / spread, level))


def _power_of_t(seeds: int, effect: float, level: float) -> float:
    from scipy.special import nctdtr, stdtrit

    noncentrality = min(effect * seeds**0.5, CERTAIN)
    return 1.0 - float(nctdtr(seeds - 1, noncentrality, stdtrit(seeds - 1, 1 - level)))


@lru_cache(maxsize=512)
def _power_of_both(seeds: int, effect: float, level: float) -> float:
    from scipy.special import stdtrit

    x = effect + np.random.default_rng(seeds).standard_normal((DRAWN, seeds))
    by_t = x.mean(axis=1) / x.std(axis=1, ddof=1) * seeds**0.5 >= stdtrit(seeds - 1, 1 - level)
    by_both = [bool(min(sample) > 0 or sign_flip_p(sample) <= level) for sample in x[by_t]]
    return float(by_both.count(True)) / DRAWN


def seeds_needed(rows: Sequence[tuple[float, float]], level: float) -> int:
    """The smallest number of seeds, from `MIN_JUDGED` on, that shows every row at once with probability `POWER`.

    rows   (size, spread) of each row, in points
    level  one-sided, of the test of one row
    `MOST` + 1 where not even `MOST` seeds do.
    """
    power_of_row = 1 - (1 - POWER) / max(1, len(rows))
    hardest = min(rows, key=lambda row: row[0] / max(row[1], TINY))  # power rises with size over spread
    low, high = MIN_JUDGED, MOST + 1
    while low < high:
        middle = (low + high) // 2
        if power(middle, *hardest, level) >= power_of_row:
            high = middle
        else:
            low = middle + 1
    return low


def spread_range(spread: float, freedom: int) -> tuple[float, float]:
    """Where the true spread lies with probability `SURE`, from one measured with so many degrees of freedom, if it is
    normal."""
    from scipy.special import chdtri

    low, high = (spread * float(freedom / chdtri(freedom, tail)) ** 0.5 for tail in (0.5 - SURE / 2, 0.5 + SURE / 2))
    return low, high
