"""Whether values rise along an order of conditions, over blocks: one block for each build and seed.

Two tests, and both have to show it. Page's test compares ranks within a block, so one wild run counts no more than its
rank (Page 1963). It supposes that without a trend the conditions of a block could be exchanged, which is false where
one of them collapses in half of its runs. The slope of each block's values, by least squares, is tested over blocks by
Student's t and the flips of signs, as all changes are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.sign_flips import shown_above

MIN_CONDITIONS = 3  # fewer have no trend that a difference would not say


def rising_p(blocks: ArrayLike) -> float:
    """One-sided p-value of "values do not depend on the condition, or fall": small when they are shown to rise.

    blocks  [block, condition] values, conditions in the order along which they are said to rise
    """
    from scipy.stats import page_trend_test

    values = _checked(blocks)
    if (values == values[:, :1]).all():
        return 1.0
    return float(page_trend_test(values).pvalue)


def slopes(blocks: ArrayLike) -> NDArray[np.float64]:
    """The slope of the values of each block, by least squares, from one condition to the next."""
    values = _checked(blocks)
    return values @ _weights(values.shape[1])


def slope_rounding(rounding: float, conditions: int) -> float:
    """Standard deviation of the rounding of a slope over so many conditions, from that of one value."""
    return rounding * float(np.sqrt((_weights(conditions) ** 2).sum()))


def _weights(conditions: int) -> NDArray[np.float64]:
    """What each condition's value counts in the slope."""
    order = np.arange(conditions) - (conditions - 1) / 2
    return np.asarray(order / (order @ order), np.float64)


def trend_p(blocks: ArrayLike, slope: Estimate) -> float:
    """One-sided p-value of "values do not rise" by both tests.

    blocks  [block, condition] values, conditions in the order along which they are said to rise
    slope   the mean of `slopes` over the blocks, with its error
    """
    shown = shown_above(slope, 0.0)
    return max(rising_p(blocks), 1.0 if shown is None else shown)


def _checked(blocks: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(blocks, np.float64)
    if values.ndim != 2 or values.shape[1] < MIN_CONDITIONS or not len(values):
        raise ValueError(f"a trend needs [blocks, at least {MIN_CONDITIONS} conditions], not {values.shape}")
    return values


def falling(blocks: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """The blocks with their conditions turned round."""
    return np.asarray(blocks, np.float64)[:, ::-1]
