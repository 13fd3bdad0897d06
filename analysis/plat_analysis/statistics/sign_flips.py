"""Test a mean by sign flips (Fisher's randomisation of paired differences), beside Student's t.

Exact for any number of values whose distribution is symmetric about the bound. Where half of the runs of a condition
collapse, a few seeds often show one of the two levels only: Student's t then sees hardly any spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from plat_analysis.statistics.intervals import MIN_JUDGED, Estimate

EXACT = 12  # up to this many values all flips are counted, beyond that DRAWN of them
DRAWN = 20_000
ROUNDING = 1e-9  # relative; sums closer than this are equal


def sign_flip_p(values: Sequence[float]) -> float:
    """Return the one-sided p-value of "the values are symmetric about zero, or below it".

    It is the share of sign vectors under which the sum is at least the observed one: of all vectors up to `EXACT`
    values, else of `DRAWN` random ones with a fixed seed.
    """
    x = np.asarray(values, float)
    signs = _signs(len(x))
    as_large = signs @ np.abs(x) >= x.sum() - ROUNDING * np.abs(x).sum()
    if len(x) <= EXACT:
        return float(as_large.mean())
    return float((as_large.sum() + 1) / (len(signs) + 1))  # the observed signs count as drawn


@lru_cache(maxsize=32)
def _signs(count: int) -> NDArray[np.float64]:
    """Return rows of signs: all of them, or `DRAWN` drawn with a fixed seed."""
    if count <= EXACT:
        bits = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    else:
        bits = np.random.default_rng(count).integers(2, size=(DRAWN, count))
    return np.asarray(2.0 * bits - 1.0, np.float64)


def flips_above(estimate: Estimate, bound: float) -> float:
    """Return the p-value of "the true value is at most `bound`" by sign flips, the largest over samples; 1 without."""
    return max((sign_flip_p([value - bound for value in sample]) for sample in estimate.samples), default=1.0)


def shown_above(estimate: Estimate, bound: float) -> float:
    """Return the p-value of "the true value is at most `bound`" that stars and verdicts use; 1 without an error.

    It is the larger of Student's t and the sign flips; t alone where no unit is on the other side of the bound, because
    five units have 32 sign vectors, so that flips alone show nothing at 2.5 %. Limit: n units that are tosses of a coin
    agree by chance in 1 of 2**n samples.
    """
    p = estimate.p_above(bound)
    if p is None:
        return 1.0
    if p > 0.5 or _unanimous(estimate, bound):
        return p
    return max(p, flips_above(estimate, bound))


def shown_below(estimate: Estimate, bound: float) -> float:
    """Return the p-value of "the true value is at least `bound`": `shown_above`, mirrored."""
    return shown_above(estimate.scaled(-1.0), -bound)


def _unanimous(estimate: Estimate, bound: float) -> bool:
    """Return True if in every sample no unit is below the bound and at least `MIN_JUDGED` are above it."""
    return bool(estimate.samples) and all(
        min(sample) >= bound and sum(value > bound for value in sample) >= MIN_JUDGED for sample in estimate.samples
    )
