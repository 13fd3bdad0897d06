"""Test if values rise along an order of conditions, within blocks: one block for each build and seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.sign_flips import shown_above

MIN_CONDITIONS = 3  # with two, a trend is a difference


def rising_p(blocks: ArrayLike) -> float:
    """Return the one-sided p-value of "values do not depend on the condition, or fall" (Page 1963, ranks in blocks).

    blocks  [block, condition], conditions in the order along which values are claimed to rise

    Raises ValueError unless there is a block and at least `MIN_CONDITIONS` conditions.
    """
    from scipy.stats import page_trend_test

    values = _checked(blocks)
    if (values == values[:, :1]).all():
        return 1.0
    return float(page_trend_test(values).pvalue)


def slopes(blocks: ArrayLike) -> NDArray[np.float64]:
    """Return the least-squares slope of each block, per step to the next condition; arguments as in `rising_p`."""
    values = _checked(blocks)
    return values @ _weights(values.shape[1])


def slope_rounding(rounding: float, conditions: int) -> float:
    """Return the standard deviation of the rounding of a slope; `rounding` is that of one value."""
    return rounding * float(np.sqrt((_weights(conditions) ** 2).sum()))


def _weights(conditions: int) -> NDArray[np.float64]:
    """Return the weight of each condition in the slope."""
    order = np.arange(conditions) - (conditions - 1) / 2
    return np.asarray(order / (order @ order), np.float64)


def trend_p(blocks: ArrayLike, slope: Estimate) -> float:
    """Return the one-sided p-value of "values do not rise": the larger of Page's test and the test of the slope.

    Page's test assumes exchangeable conditions, which a condition that collapses in half of its runs violates.

    blocks  [block, condition], conditions in the order along which values are claimed to rise
    slope   the mean of `slopes` over the blocks, with its error; tested by Student's t and sign flips
    """
    return max(rising_p(blocks), shown_above(slope, 0.0))


def _checked(blocks: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(blocks, np.float64)
    if values.ndim != 2 or values.shape[1] < MIN_CONDITIONS or not len(values):
        raise ValueError(f"a trend needs [blocks, at least {MIN_CONDITIONS} conditions], not {values.shape}")
    return values


def falling(blocks: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return the blocks [block, condition] with their conditions in reverse order, to test for a fall."""
    return np.asarray(blocks, np.float64)[:, ::-1]
