"""Where one more run is expected, from the spread between the runs that there are; and how many may lie elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from plat_analysis.statistics.intervals import LEVEL

MIN_RUNS = 5  # with fewer, the range says next to nothing: t is large, and coverage depends on a normal shape


def prediction_interval(
    values: ArrayLike, more: int = 1, rounding: float = 0.0, level: float = LEVEL
) -> tuple[float, float, float]:
    """(mean, low, high): the range in which the mean of `more` further values is expected, mean ± t s √(1/more + 1/n).

    Exact for independent values of one normal distribution. ValueError below MIN_RUNS values.

    rounding  standard deviation of the rounding of one value: the spread s is taken as at least that
    """
    from scipy.special import stdtrit

    x = np.asarray(values, float)
    n = len(x)
    if n < MIN_RUNS or more < 1:
        raise ValueError(f"a range for {more} further values needs at least {MIN_RUNS}, not {n}")
    spread = max(float(x.std(ddof=1)), rounding)
    half = float(stdtrit(n - 1, 0.5 + level / 2)) * spread * float(np.sqrt(1 / more + 1 / n))
    mean = float(x.mean())
    return mean, mean - half, mean + half


def chance_of_as_many(outside: int, ranges: int, level: float = LEVEL) -> float:
    """Probability that at least `outside` of `ranges` independent values lie outside their ranges by chance: the upper
    tail of a binomial distribution with 1 - level."""
    from scipy.special import bdtrc

    return 1.0 if outside <= 0 else float(bdtrc(outside - 1, ranges, 1 - level))
