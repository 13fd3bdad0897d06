"""Spearman's correlation of two measures over settings that were each run with several builds and seeds.

Runs of one setting are alike, so they are no independent units: the unit is a setting, with all its builds and seeds.
Values are arrays [setting, build, seed]; seeds of a build need not be those of another.

between       over settings, of the means over seeds, in each build; the mean over builds
other_builds  the same of one measure in a build with the other measure in the other builds, where it shares no run
partial       `between`, with ranks that are freed of covariates of the settings
within        over runs, of what is left after the mean of each setting and build, and of each seed and build

p-values count permutations that leave what is shared in its place. They are exact for "the two have nothing to do with
each other", not for measures that depend on each other without a correlation (DiCiccio and Romano 2017). Intervals are
Student's t on Fisher's scale, with the standard error of a bootstrap of whole settings: plain percentiles of the same
draws miss too often with few settings.

`between` is of what was observed. With few seeds, means still hold noise of their runs; where runs of one setting agree
in both measures, that noise alone makes the means agree. `other_builds` is free of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat_analysis.statistics.intervals import LEVEL
from plat_analysis.statistics.permutations import column_orders, orders

MIN_SETTINGS = 6  # five have 120 orders, and intervals that exclude nothing
RESAMPLED = 2_000
LARGEST = 0.99  # of a resampled correlation; Fisher's scale has no end
ROUNDING = 1e-9  # statistics that differ by less are equal
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Correlation:
    """A rank correlation in [-1, 1] with its 95 % interval over settings.

    above, below  one-sided p-values of "it is at most zero" and of "it is at least zero"
    error         standard error on Fisher's scale, with so many degrees of `freedom`
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
        """Two-sided p-value of "the two have nothing to do with each other"."""
        return min(1.0, 2 * min(self.above, self.below))

    def p_under(self, bound: float) -> float:
        """One-sided p-value of "it is at least `bound`", by Student's t on Fisher's scale."""
        from scipy.special import stdtr

        distance = float(np.arctanh(_clipped(self.rho)) - np.arctanh(bound))
        return float(stdtr(self.freedom, distance / self.error))


def between(x: ArrayLike, y: ArrayLike, seed: int = 0) -> Correlation:
    """Over settings, of the means over seeds, in each build; the mean over builds.

    NaN stands for a run that is missing; the mean is then over the others. ValueError where none is left.
    """
    return _over_settings(x, y, np.eye, None, seed)


def other_builds(x: ArrayLike, y: ArrayLike, seed: int = 0) -> Correlation | None:
    """Over settings, of x in each build with y in every other build; None with one build.

    Each build of x is tested for itself, and the largest p-value counts: x of one build shares no run with y of the
    others, but all builds together do.
    """
    return _over_settings(x, y, _off_diagonal, None, seed) if np.shape(x)[1] > 1 else None


def partial(x: ArrayLike, y: ArrayLike, covariates: ArrayLike, seed: int = 0) -> Correlation:
    """`between`, of ranks from which what covariates [setting, covariate] explain by least squares is taken away.

    Residuals of y are permuted (Freedman and Lane 1983). That is not exact: residuals of a fit are only nearly
    exchangeable, and only what is linear in the covariates is taken away. Where they drive both measures, the error is
    larger than the level: .04 in place of .025 in simulated runs, .09 where they drive them strongly. Intervals are too
    wide with many covariates, since settings drawn with replacement leave little beside them. ValueError where fewer
    than MIN_SETTINGS settings are left beside the covariates.
    """
    given = np.asarray(covariates, np.float64)
    if len(given) - rank(given) < MIN_SETTINGS:
        raise ValueError(f"{len(given)} settings are too few to take {rank(given)} covariates away")
    return _over_settings(x, y, np.eye, given, seed)


def within(x: ArrayLike, y: ArrayLike, seed: int = 0) -> Correlation:
    """Over all runs, of what is left of them after the mean of their setting and build, and of their seed and build.

    A seed may do the same to every setting (it draws the same prompts). Its mean is therefore taken away as well.
    """
    first, second = _checked(x, y)
    if np.isnan(first).any():
        raise ValueError("a run is missing")

    def statistic(which: NDArray[np.int64]) -> Array:
        return _pooled(*(_ranks(_rest(side[which]), (-3, -2, -1)) for side in (first, second)))

    ranks = [_ranks(_rest(side), (0, 1, 2)) for side in (first, second)]
    scale = float(np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum()))
    # The seeds of a build change places in all settings at once: what a seed does to every setting stays together, so
    # that the test is exact under it, too.
    sums = column_orders(np.einsum("sbk,sbl->bkl", *ranks), seed)
    shuffled = sums / scale if scale > 0 else np.zeros_like(sums)
    return _judged(
        float(shuffled[0]), [shuffled], statistic, len(first), len(first) - 2, (first.size - 3) ** -0.5, seed
    )


def over_runs(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's correlation of all runs, as if each were independent: what should not be done."""
    first, second = (side[~np.isnan(side)] for side in _checked(x, y))
    return float(_pooled(*(_ranks(side[None, None], (0, 1, 2)) for side in (first, second))))


def rank(covariates: Array) -> int:
    """How many degrees of freedom covariates take, beside the mean."""
    return int(np.linalg.matrix_rank(covariates - covariates.mean(axis=0)))


def _off_diagonal(builds: int) -> Array:
    return (1 - np.eye(builds)) / (builds - 1)


def _over_settings(
    x: ArrayLike, y: ArrayLike, pairs: Callable[[int], Array], covariates: Array | None, seed: int
) -> Correlation:
    """`pairs` says with which weight each build of x goes with each build of y."""
    means = [_settled(np.nanmean(side, axis=2), side) for side in _checked(x, y)]
    settings, builds = means[0].shape
    weights = np.asarray(pairs(builds), np.float64) / builds
    given = np.ones((settings, 1)) if covariates is None else np.column_stack([np.ones(settings), covariates])

    def statistic(which: NDArray[np.int64]) -> Array:
        first, second = (_residuals(_ranks(side[which], (-2,)), given[which]) for side in means)
        return _weighted(first, second, weights)

    x_rest, y_rest = (_residuals(_ranks(side, (-2,)), given) for side in means)
    # One order for all builds: what a setting does to a measure is shared by the builds, so that the setting, not the
    # setting in a build, is what may change places.
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
    """A correlation with its p-values, and its interval from the statistic of settings drawn with replacement.

    nulls  for each test of which all must agree: the statistic under every order, the observed one first
    least  the smallest standard error on Fisher's scale: settings in perfect order stay so however they are drawn
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
    """The values without the last digits, in which equal means of other numbers differ."""
    largest = float(np.nanmax(np.abs(of)))
    return np.asarray(np.round(values, int(11 - np.ceil(np.log10(largest)))) if largest > 0 else values, np.float64)


def _rest(values: Array) -> Array:
    """What is left of [..., setting, build, seed] after the means of settings and of seeds, in each build."""
    of_setting, of_seed = values.mean(axis=-1, keepdims=True), values.mean(axis=-3, keepdims=True)
    return _settled(values - of_setting - of_seed + values.mean(axis=(-3, -1), keepdims=True), values)


def _ranks(values: Array, axes: tuple[int, ...]) -> Array:
    """Ranks along some axes together, around zero."""
    from scipy.stats import rankdata

    if len(axes) > 1:
        return _ranks(values.reshape(*values.shape[:-3], -1), (-1,)).reshape(values.shape)
    ranks = rankdata(values, axis=axes[0])
    return np.asarray(ranks - ranks.mean(axis=axes[0], keepdims=True), np.float64)


def _residuals(ranks: Array, given: Array) -> Array:
    """What is left of ranks [..., setting, build] after least squares on covariates [..., setting, covariate]."""
    if given.shape[-1] == 1:
        return np.asarray(ranks - ranks.mean(axis=-2, keepdims=True), np.float64)
    rest = ranks - given @ (np.linalg.pinv(given) @ ranks)
    return np.asarray(np.where(np.abs(rest) < ROUNDING * ranks.shape[-2], 0.0, rest), np.float64)


def _weighted(x: Array, y: Array, weights: Array) -> Array:
    """The correlations of the builds of x with those of y, by weight; a constant has none with anything: zero."""
    return np.asarray(((_unit(x) @ weights) * _unit(y)).sum(axis=(-1, -2)), np.float64)


def _unit(values: Array) -> Array:
    """Each column [..., setting, build] at length one; a column of zeros stays."""
    length = np.sqrt((values**2).sum(axis=-2, keepdims=True))
    return np.asarray(np.divide(values, length, out=np.zeros_like(values), where=length > 0), np.float64)


def _pooled(x: Array, y: Array) -> Array:
    """The correlation of [..., setting, build, seed], all together."""
    axes = (-3, -2, -1)
    scale = np.sqrt((x**2).sum(axis=axes) * (y**2).sum(axis=axes))
    products = np.asarray((x * y).sum(axis=axes))
    return np.asarray(np.divide(products, scale, out=np.zeros_like(products), where=scale > 0), np.float64)


def _clipped(rho: float | Array) -> Array:
    return np.asarray(np.clip(rho, -LARGEST, LARGEST), np.float64)
