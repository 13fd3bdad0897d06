"""Compute how many seeds decide a claim: the power of a row's test, given the spread between seeds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from plat_analysis.statistics.intervals import MIN_JUDGED, TINY
from plat_analysis.statistics.sign_flips import sign_flip_p

POWER = 0.8  # probability that all rows of a claim are shown at once, if every true effect has the supposed size
MOST = 1000  # most seeds considered
CERTAIN = 35.0  # standard errors; a larger effect is always shown, and scipy's distribution gives NaN near 40
FEW = 8  # up to this many seeds, sign flips have less power than Student's t
DRAWN = 1000  # samples of a simulation
SURE = 0.9  # coverage of the range of a spread


def power(seeds: int, size: float, spread: float, level: float) -> float:
    """Return the probability that a row is shown to be above zero, for normal values.

    size, spread  true effect and standard deviation between seeds, in one unit
    level         one-sided, of the test

    Up to `FEW` seeds it is simulated with a fixed seed, because sign flips count there; above, Student's t alone. It is
    1 without spread.
    """
    from scipy.special import nctdtr, stdtrit

    if spread <= 0:
        return 1.0
    noncentrality = min(size / spread * seeds**0.5, CERTAIN)
    of_t = 1.0 - float(nctdtr(seeds - 1, noncentrality, stdtrit(seeds - 1, 1 - level)))
    return of_t if seeds > FEW else min(of_t, _power_of_both(seeds, size / spread, level))


@lru_cache(maxsize=512)
def _power_of_both(seeds: int, effect: float, level: float) -> float:
    from scipy.special import stdtrit

    x = effect + np.random.default_rng(seeds).standard_normal((DRAWN, seeds))
    by_t = x.mean(axis=1) / x.std(axis=1, ddof=1) * seeds**0.5 >= stdtrit(seeds - 1, 1 - level)
    by_both = [bool(min(sample) > 0 or sign_flip_p(sample) <= level) for sample in x[by_t]]
    return float(by_both.count(True)) / DRAWN


def seeds_needed(rows: Sequence[tuple[float, float]], level: float) -> int:
    """Return the least number of seeds, from `MIN_JUDGED` on, that shows all rows at once with probability `POWER`.

    rows   (size, spread) of each row, in one unit
    level  one-sided, of the test of one row

    Return `MOST` + 1 if even `MOST` seeds are too few.
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
    """Return the interval (low, high) of the true standard deviation with coverage `SURE`, for normal values.

    freedom  degrees of freedom of the measured `spread`
    """
    from scipy.special import chdtri

    low, high = (spread * float(freedom / chdtri(freedom, tail)) ** 0.5 for tail in (0.5 - SURE / 2, 0.5 + SURE / 2))
    return low, high
