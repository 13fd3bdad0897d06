"""Tests: of a mean, of a trend, of many estimates at once, and the seeds that they need.

A mean is tested by sign flips (Fisher's randomisation of paired differences), beside Student's t. They are exact for
any number of values whose distribution is symmetric about the bound. Where half of the runs of a condition collapse, a
few seeds often show one of the two levels only: Student's t then sees hardly any spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat_analysis.statistics.intervals import LEVEL, MIN_JUDGED, TINY, Estimate
from plat_analysis.statistics.unpaired import RUNS, permutation_p

EXACT = 12  # up to this many values all flips are counted, beyond that DRAWN of them
DRAWN = 20_000
ROUNDING = 1e-9  # relative; sums closer than this are equal
OWN_SPREAD = 8  # from this many units on, a row is tested with its own spread; fewer may agree by chance


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
    """Return the p-value of "the true value is at most `bound`" by sign flips, the largest over samples; 1 without.

    An unpaired difference is tested by permuted labels in their place (`unpaired.permutation_p`).
    """
    if estimate.over == RUNS:
        baseline, treatment = estimate.samples
        return permutation_p(baseline, treatment, bound)
    return max((sign_flip_p([value - bound for value in sample]) for sample in estimate.samples), default=1.0)


def shown_above(estimate: Estimate, bound: float) -> float:
    """Return the p-value of "the true value is at most `bound`" that stars and verdicts use; 1 without an error.

    It is the larger of Student's t and the sign flips. Where no unit is on the other side of the bound, t with the
    shared spread (`shared_spread`) replaces both if it is smaller or if there are fewer than `OWN_SPREAD` units: n
    units have 2**n sign vectors, so that five show nothing at 2.5 %, and ten nothing among 26 rows. Limit: n units that
    are tosses of a coin agree by chance in 1 of 2**n samples. Of an unpaired difference it is the larger of Welch's t
    and the permutations.
    """
    p = estimate.p_above(bound)
    if p is None:
        return 1.0
    if p > 0.5:
        return p
    if not _unanimous(estimate, bound):
        return max(p, flips_above(estimate, bound))
    by_shared = estimate.p_above(bound, estimate.shared_error)
    assert by_shared is not None
    return by_shared if estimate.units < OWN_SPREAD else min(by_shared, max(p, flips_above(estimate, bound)))


def shown_below(estimate: Estimate, bound: float) -> float:
    """Return the p-value of "the true value is at least `bound`": `shown_above`, mirrored."""
    return shown_above(estimate.scaled(-1.0), -bound)


def _unanimous(estimate: Estimate, bound: float) -> bool:
    """Return True if in every sample no unit is below the bound and at least `MIN_JUDGED` are above it."""
    return (
        bool(estimate.samples)
        and estimate.over != RUNS
        and all(
            min(sample) >= bound and sum(value > bound for value in sample) >= MIN_JUDGED for sample in estimate.samples
        )
    )


# Test if values rise along an order of conditions, within blocks: one block for each build and seed.

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


# Compute how many seeds decide a claim: the power of a row's test, given the spread between seeds.

POWER = 0.8  # probability that all rows of a claim are shown at once, if every true effect has the supposed size
MOST = 1000  # most seeds considered
CERTAIN = 35.0  # standard errors; a larger effect is always shown, and scipy's distribution gives NaN near 40
FEW = 8  # up to this many seeds, sign flips have less power than Student's t
SAMPLES = 1000  # samples of a simulation
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

    x = effect + np.random.default_rng(seeds).standard_normal((SAMPLES, seeds))
    by_t = x.mean(axis=1) / x.std(axis=1, ddof=1) * seeds**0.5 >= stdtrit(seeds - 1, 1 - level)
    by_both = [bool(min(sample) > 0 or sign_flip_p(sample) <= level) for sample in x[by_t]]
    return float(by_both.count(True)) / SAMPLES


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


def spread_range(spread: float, freedom: float) -> tuple[float, float]:
    """Return the interval (low, high) of the true standard deviation with coverage `SURE`, for normal values.

    freedom  degrees of freedom of the measured `spread`
    """
    from scipy.special import chdtri

    low, high = (spread * float(freedom / chdtri(freedom, tail)) ** 0.5 for tail in (0.5 - SURE / 2, 0.5 + SURE / 2))
    return low, high


# Decide about many estimates at once: which cells of a table are starred, which rows of a claim hold.
#
# Holm's procedure keeps the probability of any false decision in a family at its level. The p-values are those of
# `significance.shown_above`. `benchmarks/error_rates.py` measures the error rates, also where `SPREAD_SHARE` is 0.
#
# Below `OWN_SPREAD` units, a row has at least the spread of its peers: a few units may agree by chance. From then on it
# has its own spread. A row that varies much would otherwise hide effects in all others.
#
# Limit: a collapse that none of a few seeds shows leaves no spread to warn of it, so a table of one cell is starred
# too often.

ERROR = 1 - LEVEL  # probability of any false decision in a family
SPREAD_SHARE = 1.0  # least shared spread of a cell, as a share of that of its peers
Key = TypeVar("Key")


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted by Holm's step-down procedure, in the order given.

    A hypothesis is rejected at `level` where its adjusted p-value is at most `level`. None stays None and does not add
    to the size of the family.
    """
    known = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        adjusted[index] = largest
    return adjusted


def shared_spread(estimates: Mapping[Key, Estimate]) -> dict[Key, Estimate]:
    """Return the estimates with their `shared_error`: at least `SPREAD_SHARE` times the spread of all, over √units.

    The estimates are peers: cells of one column, or rows of one claim. Their spread is the root mean square of error
    times √units. Below `OWN_SPREAD` units, `error` becomes `shared_error`. Intervals stay as they are. Estimates
    without an error stay, and are not counted.
    """
    squares = [estimate.error**2 * estimate.units for estimate in estimates.values() if estimate.error is not None]
    least = SPREAD_SHARE * float(np.sqrt(np.mean(squares))) if squares else 0.0
    return {key: _sharing(estimate, least) for key, estimate in estimates.items()}


def _sharing(estimate: Estimate, least: float) -> Estimate:
    """Return the estimate with a spread of at least `least` between its units; see `shared_spread`."""
    if estimate.error is None:
        return estimate
    shared = max(estimate.error, least / estimate.units**0.5)
    own = estimate.error if estimate.units >= OWN_SPREAD else shared
    return replace(estimate, error=own, shared_error=shared)


def starred(columns: Sequence[Mapping[Key, Estimate]]) -> dict[Key, Estimate]:
    """Return the cells of a table, given by column with distinct keys, each with its `star`: +1, 0 or -1.

    All cells of all columns are one two-sided family, tested at `ERROR`. A cell that is not `judged` gets 0. The spread
    that a column shares (`shared_spread`) enters the tests, not the returned errors.
    """
    guarded = [estimate for column in columns for estimate in shared_spread(column).values()]
    cells = [item for column in columns for item in column.items()]
    stars = {}
    for (key, estimate), p in zip(cells, holm([two_sided(estimate) for estimate in guarded]), strict=True):
        shown = p is not None and p <= ERROR and estimate.value
        stars[key] = replace(estimate, star=int(np.sign(shown or 0.0)))
    return stars


def two_sided(estimate: Estimate) -> float | None:
    """Return the two-sided p-value of "the true value is zero"; None for a cell that is not `judged`."""
    if not estimate.judged:
        return None
    return min(1.0, 2 * min(shown_below(estimate, 0.0), shown_above(estimate, 0.0)))
