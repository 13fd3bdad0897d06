"""Correlate two measures over settings that were each run with several builds and seeds (Spearman).

Values are arrays [setting, build, seed]. Settings are the independent units, because runs of one setting are alike.
`apart` decides claims: its two measures never come from the same run. `between` is their correlation in the same runs.
Both may permute settings within families only, which are groups of settings that are alike for a known reason.

Permutation p-values are exact for independent measures, not for dependent ones without correlation (DiCiccio and
Romano 2017). Intervals are Student's t on Fisher's scale, with the standard error of a bootstrap of whole settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat_analysis.statistics.intervals import LEVEL
from plat_analysis.statistics.orders import Families, column_orders, members_of, orders, orders_within

MIN_SETTINGS = 6  # five have only 120 orders, and intervals that exclude nothing
RESAMPLED = 2_000
SPLITS = 70  # most halves of units that `apart` averages over: all of up to eight units
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


def between(x: ArrayLike, y: ArrayLike, seed: int = 0, families: Families | None = None) -> Correlation:
    """Correlate, in each build, the settings' means over seeds; return the mean over builds.

    x, y      [setting, build, seed]; a run with NaN in one of them is left out of both. Seeds may differ by build
    seed      of the drawn permutations and of the bootstrap
    families  the family of each setting (default: all are of one): see `apart`

    With few seeds the means hold noise that both measures of a run share; `apart` is free of it.
    Raises ValueError with fewer than `MIN_SETTINGS` settings, unequal shapes, or a setting without a run in some build.
    """
    first, second = (_settled(np.nanmean(side, axis=2), side) for side in _checked(x, y))
    return _over_settings(first, second, families, None, first.shape[1], seed)


def apart(
    x: ArrayLike,
    y: ArrayLike,
    families: Families | None = None,
    covariates: ArrayLike | None = None,
    seed: int = 0,
) -> Correlation | None:
    """Correlate x and y over settings such that the two never come from the same run.

    The units are builds, each with its mean over seeds; with one build, they are seeds. Units are split into halves in
    every way (nearly equal ones of an odd number). The mean of x over one half is correlated with the mean of y over
    the other. The result is the mean of these correlations over all splits; of more than eight units, over drawn ones.

    The p-value compares this mean with single ones under permutation of the settings of y. A permuted mean is no
    reference: its parts are less alike than those of the observed one where a run's noise moves both measures. The mean
    of parts varies no more than one of them, so the test is conservative where settings hardly differ.

    Args:
        x: the first measure [setting, build, seed]; a run with NaN in one of them is left out of both.
        y: the second measure, with the shape of `x`.
        families: the family of each setting (default: all are of one). Ranks are compared with the mean rank of the
            family, and settings are permuted within it. A setting alone in its family is not moved and adds nothing
            to the correlation.
        covariates: [setting, covariate]; what they explain of the ranks is removed as in `partial`.
        seed: of the drawn permutations and of the bootstrap.

    Returns:
        The correlation; None with one unit, or if one build has a missing run.

    Raises:
        ValueError: as `between` and `partial`.
    """
    first, second = _checked(x, y)
    builds = first.shape[1]
    if builds == 1 and (first.shape[2] < 2 or np.isnan(first).any()):
        return None
    given = None if covariates is None else _enough(covariates)
    units = [np.nanmean(side, axis=2) if builds > 1 else side[:, 0] for side in (first, second)]
    halves = _halves(units[0].shape[1], seed)
    x_parts, y_parts = units[0] @ halves, units[1] @ _others(halves)
    return _over_settings(_settled(x_parts, first), _settled(y_parts, second), families, given, builds, seed, True)


def _halves(units: int, seed: int) -> Array:
    """Return weights [unit, split] that give the mean over one half of the units. Each half and its rest occur."""
    places = range(units)
    if comb(units, units // 2) <= SPLITS:
        chosen = [half for size in {units // 2, (units + 1) // 2} for half in combinations(places, size)]
    else:
        random = np.random.default_rng([seed, units])
        drawn = [random.permutation(units) for _ in range(SPLITS // 2)]
        chosen = [tuple(half) for order in drawn for half in (order[: units // 2], order[units // 2 :])]
    return np.array([[(place in half) / len(half) for place in places] for half in chosen]).T


def _others(halves: Array) -> Array:
    """Return the weights of the units that are not in each half."""
    outside = halves == 0
    return np.asarray(outside / outside.sum(axis=0), np.float64)


def partial(x: ArrayLike, y: ArrayLike, covariates: ArrayLike, seed: int = 0) -> Correlation:
    """Correlate ranks as `between` does, after removing what the covariates explain by least squares.

    covariates  [setting, covariate]
    Residuals of y are permuted (Freedman and Lane 1983), which is not exact: only what is linear in the covariates is
    removed. Where they drive both measures, the error was .04 in place of .025 in simulated runs, .09 where they do so
    strongly. Intervals are too wide with many covariates.
    Raises ValueError as `between` does, or if settings minus `rank(covariates)` are fewer than `MIN_SETTINGS`.
    """
    first, second = (_settled(np.nanmean(side, axis=2), side) for side in _checked(x, y))
    return _over_settings(first, second, None, _enough(covariates), first.shape[1], seed)


def _enough(covariates: ArrayLike) -> Array:
    """Return the covariates as an array. Raises ValueError if settings minus their rank are below `MIN_SETTINGS`."""
    given = np.asarray(covariates, np.float64)
    if len(given) - rank(given) < MIN_SETTINGS:
        raise ValueError(f"{len(given)} settings are too few to take {rank(given)} covariates away")
    return given


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
        float(shuffled[0]), shuffled[:, None], statistic, len(first), len(first) - 2, (first.size - 3) ** -0.5, seed
    )


def over_runs(x: ArrayLike, y: ArrayLike) -> float:
    """Return Spearman's correlation of all runs as if independent, for comparison only. Raises as `between`."""
    first, second = (side[~np.isnan(side)] for side in _checked(x, y))
    return float(_pooled(*(_ranks(side[None, None], (0, 1, 2)) for side in (first, second))))


def rank(covariates: Array) -> int:
    """Return how many degrees of freedom the covariates [setting, covariate] take, beside the mean."""
    return int(np.linalg.matrix_rank(covariates - covariates.mean(axis=0)))


def _over_settings(
    x: Array,
    y: Array,
    families: Families | None,
    covariates: Array | None,
    builds: int,
    seed: int,
    single: bool = False,
) -> Correlation:
    """Return the mean over columns of the rank correlation of x [setting, column] with the same column of y.

    single  compare the mean with single columns under permutation, not with the mean of permuted columns (see `apart`)
    """
    settings = len(x)
    of_family = None if families is None else _indicators(families)
    known = [each for each in (of_family, covariates) if each is not None]
    given = np.column_stack([np.ones(settings), *known])

    def statistic(which: NDArray[np.int64]) -> Array:
        first, second = (_residuals(_ranks(side[which], (-2,)), given[which]) for side in (x, y))
        return np.asarray(_columns(first, second).mean(axis=-1), np.float64)

    x_rest, y_rest = (_residuals(_ranks(side, (-2,)), given) for side in (x, y))
    # One order for all columns, which share the effects of a setting.
    places = orders(settings, seed) if families is None else orders_within(families, seed)
    if covariates is not None:
        shuffled = _columns(x_rest, _residuals(y_rest[places], given))
    else:
        first, second = _unit(x_rest), _unit(y_rest)
        rows = np.arange(settings)
        each = [(a[:, None] * b)[rows, places].sum(axis=1) for a, b in zip(first.T, second.T, strict=True)]
        shuffled = np.stack(each, axis=1)
    taken = rank(given)
    least = (settings * builds - 3) ** -0.5  # as if builds were independent of each other
    freedom = max(1, settings - 2 - taken)
    nulls = shuffled if single else shuffled.mean(axis=1, keepdims=True)
    return _judged(float(_columns(x_rest, y_rest).mean()), nulls, statistic, settings, freedom, least, seed)


def _indicators(families: Families) -> Array:
    """Return [setting, family], 1 where the setting is in the family."""
    found = np.zeros((len(families), len(members_of(families))))
    for family, places in enumerate(members_of(families)):
        found[places, family] = 1
    return found


def _judged(
    rho: float,
    nulls: Array,
    statistic: Callable[[NDArray[np.int64]], Array],
    settings: int,
    freedom: int,
    least: float,
    seed: int,
) -> Correlation:
    """Return a correlation with its p-values, and its interval from the statistic of settings drawn with replacement.

    nulls  [order, part]: the statistics under every order with which `rho` is compared, those of the observed one first
    least  the smallest standard error on Fisher's scale: resampling a perfect order gives no spread
    """
    from scipy.special import stdtrit

    drawn = np.random.default_rng([seed, settings]).integers(settings, size=(RESAMPLED, settings))
    error = max(least, float(np.arctanh(_clipped(statistic(drawn))).std(ddof=1)))
    rho = min(1.0, max(-1.0, rho))  # perfect order may come out as one and a last digit
    middle, half = np.arctanh(_clipped(rho)), float(stdtrit(freedom, 0.5 + LEVEL / 2)) * error
    low, high = np.tanh([middle - half, middle + half])
    reached = [(s * nulls >= s * rho - ROUNDING).mean(axis=1) for s in (1, -1)]
    # The observed order always counts, so that no p-value is below one in the number of orders.
    above, below = ((1 + float(each[1:].sum())) / len(each) for each in reached)
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


def _columns(x: Array, y: Array) -> Array:
    """Return the correlation of each column of x [..., setting, column] with that of y; zero for a constant."""
    return np.asarray((_unit(x) * _unit(y)).sum(axis=-2), np.float64)


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
