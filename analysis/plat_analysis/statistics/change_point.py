"""When a curve falls: the break of two means that fits best from its peak on.

A signal may rise before it falls, so the search begins where the mean of three neighbours is largest. From there on the
curve is split into an earlier and a later part; the break is where the squared errors from the means of both parts are
smallest (Hinkley 1970). For a steady fall that is its middle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEAST = 5  # measurements from the peak on: fewer have no parts to compare
ROUNDING = 1e-9  # sums that differ by less, relative to the values, are equal: the first of them counts
PART = 2  # measurements of the shorter part, at least: one alone is its own mean


@dataclass(frozen=True)
class Fall:
    """A fall from a mean of `before` to one of `after`; `step` is the first measurement after it."""

    step: int
    before: float
    after: float

    @property
    def share(self) -> float:
        """The fall as a share of the level before it; 0 where that is not above zero."""
        return (self.before - self.after) / self.before if self.before > 0 else 0.0


def fall(steps: ArrayLike, values: ArrayLike) -> Fall | None:
    """The fall of a curve; None where it ends too soon after its peak, or does not fall.

    steps   in rising order
    values  one for each step
    """
    at, curve = np.asarray(steps, np.int64), np.asarray(values, np.float64)
    if at.shape != curve.shape or at.ndim != 1:
        raise ValueError(f"{at.shape} steps and {curve.shape} values")
    first = _peak(curve)
    at, curve = at[first:], curve[first:]
    if len(curve) < LEAST:
        return None
    breaks = range(PART, len(curve) - PART + 1)
    errors = np.array([curve[:k].var() * k + curve[k:].var() * (len(curve) - k) for k in breaks])
    k = breaks[_first(errors <= errors.min() + ROUNDING * float((curve**2).sum()))]
    before, after = float(curve[:k].mean()), float(curve[k:].mean())
    return Fall(int(at[k]), before, after) if after < before else None


def _peak(curve: NDArray[np.float64]) -> int:
    """The first index of the three neighbours with the largest mean."""
    if len(curve) < 3:
        return 0
    sums = np.convolve(curve, np.ones(3), mode="valid")
    return _first(sums >= sums.max() - ROUNDING * float(np.abs(curve).sum()))


def _first(true: NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(true)[0])


def sign_test(positive: int, negative: int) -> float:
    """One-sided p-value of "a lag is as often negative as positive". Ties do not count."""
    from scipy.stats import binomtest

    trials = positive + negative
    return float(binomtest(positive, trials, 0.5, alternative="greater").pvalue) if trials else 1.0
