"""A test that supposes no shape of the spread: how often would chance alone set the signs so that the sum is as large?

Where half of the runs of one condition collapse, differences are near two values, and few seeds often show one of them
only: Student's t then sees hardly any spread. The signs do not lie in that way. Under a distribution that is symmetric
about the bound the test is exact, for any number of values (Fisher's randomisation of paired differences).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from plat_analysis.statistics.intervals import MIN_JUDGED, Estimate

EXACT = 12  # up to so many values all flips are counted, beyond that DRAWN of them
DRAWN = 20_000
ROUNDING = 1e-9  # sums that differ by less, relative to the values, are equal


def sign_flip_p(values: Sequence[float]) -> float:
    """One-sided p-value of "the values are symmetric about zero, or below it": small when they are shown to be above.

    The share of all ways to set the signs of the values that have at least their sum.
    """
    x = np.asarray(values, float)
    signs = _signs(len(x))
    as_large = signs @ np.abs(x) >= x.sum() - ROUNDING * np.abs(x).sum()
    if len(x) <= EXACT:
        return float(as_large.mean())
    return float((as_large.sum() + 1) / (len(signs) + 1))  # the observed signs count as drawn


@lru_cache(maxsize=32)
def _signs(count: int) -> NDArray[np.float64]:
    """Rows of signs: all of them, or as many as are drawn with a fixed seed."""
    if count <= EXACT:
        bits = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    else:
        bits = np.random.default_rng(count).integers(2, size=(DRAWN, count))
    return np.asarray(2.0 * bits - 1.0, np.float64)


def flips_above(estimate: Estimate, bound: float) -> float:
    """p-value of "the true value is at most `bound`" by sign flips; the largest over the sources of chance."""
    return max((sign_flip_p([value - bound for value in sample]) for sample in estimate.samples), default=1.0)


def shown_above(estimate: Estimate, bound: float) -> float | None:
    """p-value of "the true value is at most `bound`" on which stars and verdicts rest; None without an error.

    The larger one of Student's t and the sign flips; but that of t alone where no unit is on the other side of the
    bound. Five units have 32 ways to set their signs, so that the flips by themselves never show anything at 2.5 %.
    Where all n units are tosses of a coin, they agree by chance in 1 of 2**n samples, and no test can know better.
    """
    p = estimate.p_above(bound)
    if p is None or p > 0.5 or _unanimous(estimate, bound):
        return p
    return max(p, flips_above(estimate, bound))


def shown_below(estimate: Estimate, bound: float) -> float | None:
    """p-value of "the true value is at least `bound`" on which stars and verdicts rest: `shown_above`, mirrored."""
    return shown_above(estimate.scaled(-1.0), -bound)


def _unanimous(estimate: Estimate, bound: float) -> bool:
    """Whether no unit is below the bound, and enough units are above it, in every source of chance."""
    return bool(estimate.samples) and all(
        min(sample) >= bound and sum(value > bound for value in sample) >= MIN_JUDGED for sample in estimate.samples
    )
