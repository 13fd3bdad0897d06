"""Correlate two measures over settings that were each run with several builds and seeds (Spearman).

Values are arrays [setting, build, seed]. Settings are the independent units, because runs of one setting are alike.
Permutation p-values are exact for independent measures, not for dependent ones without correlation (DiCiccio and
Romano 2017). Intervals are Student's t on Fisher's scale, with the standard error of a bootstrap of whole settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from math import factorial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat_analysis.statistics.intervals import LEVEL

# Enumerate the orders of a permutation test: all of them up to `DRAWN`, else `DRAWN` drawn with a seed.
#
# The observed order is always included, so a p-value is never zero.

DRAWN = 20_000


@lru_cache(maxsize=32)
def orders(count: int, seed: int = 0) -> NDArray[np.int64]:
    """Return orders of `count` items [order, item] as indices; the first is 0, 1, 2, ...

    They are all orders if there are at most `DRAWN`, else the first and `DRAWN` random ones. Calls share the array: do
    not change it.
    """
    if factorial(count) <= DRAWN:
        return np.array(list(permutations(range(count))), np.int64)
    drawn = np.random.default_rng([seed, count]).permuted(np.tile(np.arange(count), (DRAWN, 1)), axis=1)
    return np.vstack([np.arange(count), drawn])


def column_orders(products: NDArray[np.float64], seed: int = 0) -> NDArray[np.float64]:
    """Return the sums over group and i of products[group, i, order[i]], one for each choice of an order per group.

    The sums are a flat array, the one with the observed orders first. The others are those of all choices if these are
    at most DRAWN, else of DRAWN random ones.
    """
    groups, count, _ = products.shape
    rows = orders(count, seed)
    sums = [np.asarray(product[np.arange(count), rows].sum(axis=1), np.float64) for product in products]
    if factorial(count) ** groups <= DRAWN:
        every = sums[0]
        for more in sums[1:]:
            every = np.add.outer(every, more).ravel()
        return every
    random = np.random.default_rng([seed, groups, count])
    drawn = sum(of_group[random.integers(len(rows), size=DRAWN)] for of_group in sums)
    observed = sum(of_group[0] for of_group in sums)
    return np.append(observed, drawn).astype(np.float64)


MIN_SETTINGS = 6  # five have only 120 orders, and intervals that exclude nothing
RESAMPLED = 2_000
LARGEST = 0.99  # bound of a correlation before arctanh, which is infinite at 1
ROUNDING = 1e-9  # statistics that differ by less are equal
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Correlation:
    """Hold a rank correlation in [-1, 1] with its 95 % interval over settings.

    above, below  one-sided p-values of "the correlation is at most zero" and of "it is at least zero"
    error         standard error on Fisher's scale, with `freedom` degrees of freedom
    """

    rho: float
    low: float
    high: float
    above: float
    below: float
    settings: int
    error: float
    freedom: int

    @property
    def p(self) -> float:
        """Return the two-sided p-value of "the measures are independent"."""
        return min(1.0, 2 * min(self.above, self.below))

    def p_under(self, bound: float) -> float:
        """Return the one-sided p-value of "the correlation is at least `bound`", by Student's t on Fisher's scale."""
        from scipy.special import stdtr

        distance = float(np.arctanh(_clipped(self.rho)) - np.arctanh(bound))
        return float(stdtr(self.freedom, distance / self.error))


def between(x: ArrayLike, y: ArrayLike, seed: int = 0) -> Correlation:
    """Correlate, in each build, the settings' means over seeds; return the mean over builds.

    x, y  [setting, build, seed]; a run with NaN in one of them is left out of both. Seeds may differ by build
    seed  of the drawn permutations and of the bootstrap

    With few seeds the means hold noise that both measures of a run share; `other_builds` is free of it.
    Raises ValueError with fewer than `MIN_SETTINGS` settings, unequal shapes, or a setting without a run in some build.
    """
    return _over_settings(x, y, np.eye, None, seed)


def other_builds(x: ArrayLike, y: ArrayLike, seed: int = 0) -> Correlation | None:
    """Correlate x in each build with y in every other build, as `between` does and raises; None with one build.

    Each build of x is tested alone, and the largest p-value counts: x of one build shares no run with y of the others,
    but all builds together do.
    """
    if np.shape(x)[1] < 2:
        return None
    return _over_settings(x, y, lambda builds: (1 - np.eye(builds)) / (builds - 1), None, seed)


def partial(x: ArrayLike, y: ArrayLike, covariates: ArrayLike, seed: int = 0) -> Correlation:
    """Correlate ranks as `between` does, after removing what the covariates explain by least squares.

    covariates  [setting, covariate]
    Residuals of y are permuted (Freedman and Lane 1983), which is not exact: only what is linear in the covariates is
    removed. Where they drive both measures, the error was .04 in place of .025 in simulated runs, .09 where they do so
    strongly. Intervals are too wide with many covariates.
    Raises ValueError as `between` does, or if settings minus `rank(covariates)` are fewer than `MIN_SETTINGS`.
    """
    given = np.asarray(covariates, np.float64)
    if len(given) - rank(given) < MIN_SETTINGS:
        raise ValueError(f"{len(given)} settings are too few to take {rank(given)} covariates away")
    return _over_settings(x, y, np.eye, given, seed)


def within(x: ArrayLike, y: ArrayLike, seed: int = 0) -> Correlation:
    """Correlate all runs after subtracting the means of their setting and build, and of their seed and build.

    Seed means are subtracted because a seed may shift every setting (it draws the same prompts).
    Raises ValueError as `between` does, or if a run is missing (NaN).
    """
    first, second = _checked(x, y)
    if np.isnan(first).any():
        raise ValueError("a run is missing")

    def statistic(which: NDArray[np.int64]) -> Array:
        return _pooled(*(_ranks(_rest(side[which]), (-3, -2, -1)) for side in (first, second)))

    ranks = [_ranks(_rest(side), (0, 1, 2)) for side in (first, second)]
    scale = float(np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum()))
    # Seeds of a build are permuted in all settings at once, so that effects of a seed on every setting stay intact.
    sums = column_orders(np.einsum("sbk,sbl->bkl", *ranks), seed)
    shuffled = sums / scale if scale > 0 else np.zeros_like(sums)
    return _judged(
        float(shuffled[0]), [shuffled], statistic, len(first), len(first) - 2, (first.size - 3) ** -0.5, seed
    )


def over_runs(x: ArrayLike, y: ArrayLike) -> float:
    """Return Spearman's correlation of all runs as if independent, for comparison only. Raises as `between`."""
    first, second = (side[~np.isnan(side)] for side in _checked(x, y))
    return float(_pooled(*(_ranks(side[None, None], (0, 1, 2)) for side in (first, second))))


def rank(covariates: Array) -> int:
    """Return how many degrees of freedom the covariates [setting, covariate] take, beside the mean."""
    return int(np.linalg.matrix_rank(covariates - covariates.mean(axis=0)))


def _over_settings(
    x: ArrayLike, y: ArrayLike, pairs: Callable[[int], Array], covariates: Array | None, seed: int
) -> Correlation:
    """Correlate means over seeds; `pairs(builds)` gives the weight [build of x, build of y] of each pair of builds."""
    means = [_settled(np.nanmean(side, axis=2), side) for side in _checked(x, y)]
    settings, builds = means[0].shape
    weights = np.asarray(pairs(builds), np.float64) / builds
    given = np.ones((settings, 1)) if covariates is None else np.column_stack([np.ones(settings), covariates])

    def statistic(which: NDArray[np.int64]) -> Array:
        first, second = (_residuals(_ranks(side[which], (-2,)), given[which]) for side in means)
        return _weighted(first, second, weights)

    x_rest, y_rest = (_residuals(_ranks(side, (-2,)), given) for side in means)
    # One order for all builds, which share the effects of a setting.
    places = orders(settings, seed)
    if covariates is not None:
        nulls = [_weighted(x_rest, _residuals(y_rest[places], given), weights)]
    else:
        first, second = _unit(x_rest), _unit(y_rest)
        together = [weights] if weights[0, 0] else [np.diag(row) @ weights for row in np.eye(builds)]
        nulls = [(first @ each @ second.T)[np.arange(settings), places].sum(axis=1) for each in together]
    freedom = settings - 2 - (0 if covariates is None else rank(covariates))
    least = (settings * builds - 3) ** -0.5  # as if builds were independent of each other
    return _judged(float(_weighted(x_rest, y_rest, weights)), nulls, statistic, settings, freedom, least, seed)


def _judged(
    rho: float,
    nulls: Sequence[Array],
    statistic: Callable[[NDArray[np.int64]], Array],
    settings: int,
    freedom: int,
    least: float,
    seed: int,
) -> Correlation:
    """Return a correlation with its p-values, and its interval from the statistic of settings drawn with replacement.

    nulls  for each test: the statistic under every order, the observed one first. All tests must agree
    least  the smallest standard error on Fisher's scale: resampling a perfect order gives no spread
    """
    from scipy.special import stdtrit

    drawn = np.random.default_rng([seed, settings]).integers(settings, size=(RESAMPLED, settings))
    error = max(least, float(np.arctanh(_clipped(statistic(drawn))).std(ddof=1)))
    rho = min(1.0, max(-1.0, rho))  # perfect order may come out as one and a last digit
    middle, half = np.arctanh(_clipped(rho)), float(stdtrit(freedom, 0.5 + LEVEL / 2)) * error
    low, high = np.tanh([middle - half, middle + half])
    above, below = (max(float((s * null >= s * null[0] - ROUNDING).mean()) for null in nulls) for s in (1, -1))
    return Correlation(rho, min(float(low), rho), max(float(high), rho), above, below, settings, error, freedom)


def _checked(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    first, second = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if first.shape != second.shape or first.ndim != 3 or len(first) < MIN_SETTINGS:
        raise ValueError(f"a correlation needs [at least {MIN_SETTINGS} settings, builds, seeds], not {first.shape}")
    missing = np.isnan(first) | np.isnan(second)
    if missing.all(axis=2).any():
        raise ValueError("a setting has no run in some build")
    return np.where(missing, np.nan, first), np.where(missing, np.nan, second)


def _settled(values: Array, of: Array) -> Array:
    """Round values so that means which are equal up to rounding errors of `of` are equal."""
    largest = float(np.nanmax(np.abs(of)))
    return np.asarray(np.round(values, int(11 - np.ceil(np.log10(largest)))) if largest > 0 else values, np.float64)


def _rest(values: Array) -> Array:
    """Subtract the means of settings and of seeds from [..., setting, build, seed], in each build."""
    of_setting, of_seed = values.mean(axis=-1, keepdims=True), values.mean(axis=-3, keepdims=True)
    return _settled(values - of_setting - of_seed + values.mean(axis=(-3, -1), keepdims=True), values)


def _ranks(values: Array, axes: tuple[int, ...]) -> Array:
    """Return ranks along the given axes together, centred at zero."""
    from scipy.stats import rankdata

    if len(axes) > 1:
        return _ranks(values.reshape(*values.shape[:-3], -1), (-1,)).reshape(values.shape)
    ranks = rankdata(values, axis=axes[0])
    return np.asarray(ranks - ranks.mean(axis=axes[0], keepdims=True), np.float64)


def _residuals(ranks: Array, given: Array) -> Array:
    """Return the residuals of ranks [..., setting, build] after least squares on [..., setting, covariate]."""
    if given.shape[-1] == 1:
        return np.asarray(ranks - ranks.mean(axis=-2, keepdims=True), np.float64)
    rest = ranks - given @ (np.linalg.pinv(given) @ ranks)
    return np.asarray(np.where(np.abs(rest) < ROUNDING * ranks.shape[-2], 0.0, rest), np.float64)


def _weighted(x: Array, y: Array, weights: Array) -> Array:
    """Return the weighted correlations of the builds of x with those of y; zero for a constant."""
    return np.asarray(((_unit(x) @ weights) * _unit(y)).sum(axis=(-1, -2)), np.float64)


def _unit(values: Array) -> Array:
    """Scale each column of [..., setting, build] to length one; a column of zeros stays."""
    length = np.sqrt((values**2).sum(axis=-2, keepdims=True))
    return np.asarray(np.divide(values, length, out=np.zeros_like(values), where=length > 0), np.float64)


def _pooled(x: Array, y: Array) -> Array:
    """Return the correlation of [..., setting, build, seed] over all three axes together; zero for a constant."""
    axes = (-3, -2, -1)
    scale = np.sqrt((x**2).sum(axis=axes) * (y**2).sum(axis=axes))
    products = np.asarray((x * y).sum(axis=axes))
    return np.asarray(np.divide(products, scale, out=np.zeros_like(products), where=scale > 0), np.float64)


def _clipped(rho: float | Array) -> Array:
    return np.asarray(np.clip(rho, -LARGEST, LARGEST), np.float64)
