"""Compare two conditions whose runs share no seeds, or differ in number: Welch's t and a permutation test."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat_analysis.statistics.intervals import LEVEL, MIN_JUDGED, TINY, Estimate

DRAWN = 20_000  # permutations; all are counted where there are fewer
ROUNDING = 1e-9  # relative; sums closer than this are equal
MIN_RUNS = 3  # of each side, for an interval
RUNS = "runs"  # `Estimate.over` of an unpaired difference


def over_runs(baseline: Sequence[float], treatment: Sequence[float], rounding: float = 0.0, **facts: Any) -> Estimate:
    """Return the difference of two means, treatment minus baseline, with Welch's interval; no value without runs.

    The estimate is judged from `MIN_JUDGED` runs on each side. The degrees of freedom are Welch's and Satterthwaite's.

    Args:
        baseline, treatment: A number for each run. The two need not have equal lengths.
        rounding: Standard deviation of the rounding of a difference of two runs; half of its square is the least
            variance of a side.
        facts: Go into the Estimate: wanted, run_ids, note.
    """
    sides = [np.asarray(side, float) for side in (baseline, treatment)]
    sizes = np.array([len(side) for side in sides])
    if not sizes.all():
        return Estimate(**facts)
    value, runs = float(sides[1].mean() - sides[0].mean()), int(sizes.sum())
    if sizes.min() < MIN_RUNS:
        return Estimate(value, over=RUNS, seeds=runs, **facts)
    observed = np.array([side.var(ddof=1) for side in sides])
    parts = np.maximum(observed, rounding**2 / 2) / sizes
    error = float(np.sqrt(parts.sum()))
    freedom = float(sizes.min() - 1)
    if sizes.min() >= MIN_JUDGED and error > TINY * max(1.0, abs(value)):
        freedom = max(freedom, float(parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum()))
    half = _t_quantile(freedom) * error
    return Estimate(
        value, value - half, value + half, RUNS, runs, error=error, units=runs, freedom=freedom,
        samples=tuple(tuple(side.tolist()) for side in sides),
        deviation=float(np.sqrt((observed / sizes).sum() * runs)), **facts,
    )  # fmt: skip


def permutation_p(baseline: Sequence[float], treatment: Sequence[float], bound: float = 0.0) -> float:
    """Return the one-sided p-value of "the treatment adds at most `bound`", by permuted labels.

    The statistic is the difference of the means. It is exact if the treatment adds the same number to every run. All
    divisions into two groups are counted up to `DRAWN` of them, else `DRAWN` drawn with a fixed seed, as
    `scipy.stats.permutation_test` does.
    """
    shifted = np.asarray(treatment, float) - bound
    pool = np.concatenate([shifted, np.asarray(baseline, float)])
    pool = pool - pool.mean()  # smaller numbers, smaller rounding errors; with fixed sizes the sum orders as the means
    treated = _divisions(len(shifted), len(baseline))
    as_large = treated @ pool >= pool[: len(shifted)].sum() - ROUNDING * np.abs(pool).sum()
    if len(treated) < DRAWN:
        return float(as_large.mean())
    return float((as_large.sum() + 1) / (DRAWN + 1))  # the observed division counts as drawn


@lru_cache(maxsize=16)
def _divisions(first: int, second: int) -> NDArray[np.float64]:
    """Return a row of zeros and ones for each division, ones for the first group: all of them, or `DRAWN` drawn."""
    count = first + second
    if comb(count, first) < DRAWN:
        chosen = np.array(list(combinations(range(count), first)))
    else:
        chosen = np.argsort(np.random.default_rng(count).random((DRAWN, count)), axis=1)[:, :first]
    rows = np.zeros((len(chosen), count))
    np.put_along_axis(rows, chosen, 1.0, axis=1)
    return rows


def least_p(first: int, second: int) -> float:
    """Return the smallest p-value that `permutation_p` can have with so many runs on each side.

    For example 1/252 with five and five runs, so that Holm's procedure over seven rows shows nothing at 2.5 %.
    """
    divisions = comb(first + second, first)
    return 1 / divisions if divisions < DRAWN else 1 / (DRAWN + 1)


def _t_quantile(freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + LEVEL / 2))
