"""Find the change point of a falling curve: the best fit of two means from the curve's peak on (Hinkley 1970)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEAST = 5  # least measurements from the peak on
ROUNDING = 1e-9  # relative; sums closer than this are ties, and the first one counts
PART = 2  # least measurements of a part; the error of a part of one would always be zero


@dataclass(frozen=True)
class Fall:
    """Hold a fall from a mean of `before` to a mean of `after`; `step` is the first measurement at the lower level."""

    step: int
    before: float
    after: float

    @property
    def share(self) -> float:
        """Return the fall as a share of the level before it; 0 where that level is not above zero."""
        return (self.before - self.after) / self.before if self.before > 0 else 0.0


def fall(steps: ArrayLike, values: ArrayLike) -> Fall | None:
    """Return the fall of a curve, or None.

    None with fewer than `LEAST` measurements from the curve's peak on, or if it does not fall. The peak is the first of
    the three consecutive measurements with the largest mean, since a signal may rise before it falls. From the peak on,
    the break has the least squared errors from the means of the two parts. For a steady fall it is the middle.

    steps   shape (n,), integers in rising order
    values  shape (n,)

    Raises ValueError if the shapes differ or are not (n,).
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
    """Return the first index of the three neighbours with the largest mean."""
    if len(curve) < 3:
        return 0
    sums = np.convolve(curve, np.ones(3), mode="valid")
    return _first(sums >= sums.max() - ROUNDING * float(np.abs(curve).sum()))


def _first(true: NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(true)[0])


def sign_test(positive: int, negative: int) -> float:
    """Return the one-sided p-value of "a lag is as often negative as positive" (binomial); 1 without trials.

    positive, negative  counts of lags; leave out ties
    """
    from scipy.stats import binomtest

    trials = positive + negative
    return float(binomtest(positive, trials, 0.5, alternative="greater").pvalue) if trials else 1.0
