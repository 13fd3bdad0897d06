"""Compute intervals of success rates, of means and of their differences. Pure functions of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
MIN_JUDGED = 5  # least independent units for a star or a verdict: seeds, or builds with `builds: random`
TINY = 1e-12  # a standard error below this is a rounding error


@dataclass(frozen=True)
class Estimate:
    """Hold a number with its interval and its runs. `value` is None when it is missing; `note` then says why.

    low, high      the 95 % interval
    seeds, wanted  how many of the wanted runs, or pairs of runs, it is computed from
    over           what the interval ranges over: `seeds` or `builds` (Student's t), `tasks` (the same, see
                   `statistics.tasks`), `runs` (Welch, unpaired), `instances` (one seed: Wilson or Newcombe; says
                   nothing about another run and decides nothing), or "" without an interval (`tasks` and `runs` stay)
    error, units   standard error over `units` independent units (seeds, builds, tasks, or runs of both sides); None
                   below three of them
    freedom        degrees of freedom of that error
    shared_error   standard error with at least the spread of the peers (`significance.shared_spread`); else None
    about          which builds of the base model the interval is about: `this build`, `these 2 builds`, `such builds`;
                   "" for runs without builds
    samples        the values of the units, for tests by sign flips: one sample for each source of chance. If `over` is
                   `runs`: those of the baseline and of the treatment, for a permutation test
    deviation      standard deviation between the units, from two on
    star           +1 or -1 where its table found it above or below zero, with all cells tested together; else 0
    values         replicate -> its value
    asks           replicate -> the ids of the runs that its value needs, also where it has none
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    over: str = ""
    seeds: int = 0
    wanted: int = 0
    run_ids: tuple[str, ...] = ()
    note: str = ""
    error: float | None = None
    units: int = 0
    freedom: float = 0
    about: str = ""
    samples: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    deviation: float | None = None
    star: int = 0
    values: Mapping[Any, float] = field(default_factory=dict, repr=False, compare=False)
    asks: Mapping[Any, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)
    shared_error: float | None = None

    @property
    def complete(self) -> bool:
        """Return True if there is a value and no wanted run is missing."""
        return self.value is not None and self.seeds == self.wanted

    @property
    def units_in_words(self) -> str:
        """What the interval ranges over and is about, e.g. `seeds, about this build`."""
        return f"{self.over}, about {self.about}" if self.about else self.over

    @property
    def judged(self) -> bool:
        """Return True if it may decide a star or a verdict: it is complete and has `MIN_JUDGED` units or more."""
        units = min(self.units, self.freedom + 1)  # a mean of strata has fewer degrees of freedom
        return self.complete and self.error is not None and units >= MIN_JUDGED

    def p_above(self, bound: float, error: float | None = None) -> float | None:
        """Return the one-sided p-value of "the true value is at most `bound`", by Student's t.

        `error` replaces the standard error. Return None without an error over seeds or builds, and 1 if the units are
        all equal.
        """
        error = self.error if error is None else error
        if self.value is None or error is None:
            return None
        if error <= TINY * max(1.0, abs(self.value)):  # without spread nothing is shown
            return 1.0
        from scipy.special import stdtr

        return float(stdtr(self.freedom, (bound - self.value) / error))

    def scaled(self, factor: float) -> Estimate:
        """Return a copy in another unit, e.g. times 100 for percent; a negative factor swaps the ends. `star` stays."""

        def times(number: float | None) -> float | None:
            return None if number is None else number * factor

        low, high = (times(self.low), times(self.high)) if factor >= 0 else (times(self.high), times(self.low))
        spreads = (self.error, self.shared_error, self.deviation)
        error, shared, deviation = (None if sd is None else sd * abs(factor) for sd in spreads)
        samples = tuple(tuple(value * factor for value in sample) for sample in self.samples)
        values = {replicate: value * factor for replicate, value in self.values.items()}
        return replace(
            self,
            value=times(self.value),
            low=low,
            high=high,
            error=error,
            shared_error=shared,
            deviation=deviation,
            samples=samples,
            values=values,
        )


def wilson(
    successes: ArrayLike, trials: ArrayLike, level: float = LEVEL
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the Wilson score interval of a proportion, elementwise: (low, high), each in [0, 1].

    successes, trials  arrays that broadcast to one shape
    """
    from scipy.special import ndtri

    hits, n = np.asarray(successes, float), np.asarray(trials, float)
    z = ndtri(0.5 + level / 2)
    p = hits / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # at 0 and n successes the bound is exactly 0 or 1, without rounding errors
    return np.where(hits == 0, 0.0, centre - half), np.where(hits == n, 1.0, centre + half)


def clopper_pearson(hits: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the exact interval (low, high) of a share in [0, 1] (Clopper and Pearson 1934); conservative.

    Raises ValueError unless 0 <= hits <= trials and trials > 0.
    """
    from scipy.special import betaincinv

    if not 0 <= hits <= trials or not trials:
        raise ValueError(f"hits must lie between 0 and trials, and trials above 0: got {hits} of {trials}")
    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, tail))
    high = 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1 - tail))
    return low, high


def newcombe_paired(first: ArrayLike, second: ArrayLike, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of mean(second) - mean(first) for two 0/1 vectors on the same instances.

    Newcombe 1998, method 10. It stays within [-1, 1] and has a width above zero even for equal vectors.
    Raises ValueError if the vectors are empty or differ in length.
    """
    x, y = np.asarray(first, float), np.asarray(second, float)
    if x.shape != y.shape or x.ndim != 1 or not len(x):
        raise ValueError(f"two 0/1 vectors of one length are needed, got shapes {x.shape} and {y.shape}")
    n = len(x)
    both, only_y, only_x = float(x @ y), float((1 - x) @ y), float(x @ (1 - y))
    neither = n - both - only_x - only_y
    denominator = np.sqrt((both + only_y) * (only_x + neither) * (both + only_x) * (only_y + neither))
    cross = both * neither - only_y * only_x
    if cross > 0:  # continuity correction of phi, as published
        cross = max(cross - n / 2, 0.0)
    phi = cross / denominator if denominator else 0.0
    (low_x, low_y), (high_x, high_y) = wilson([x.sum(), y.sum()], [n, n], level)
    px, py = x.mean(), y.mean()
    return _square_and_add(py - px, py - low_y, high_x - px, high_y - py, px - low_x, phi)


def newcombe_unpaired(p: float, n: float, q: float, m: float, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of q - p for proportions of n and m independent trials (Newcombe 1998, method 10)."""
    (low_p, low_q), (high_p, high_q) = wilson([p * n, q * m], [n, m], level)
    return _square_and_add(q - p, q - low_q, high_p - p, high_q - q, p - low_p, 0.0)


def _square_and_add(
    diff: float, down_q: float, up_p: float, up_q: float, down_p: float, phi: float
) -> tuple[float, float]:
    low = np.sqrt(max(down_q**2 - 2 * phi * down_q * up_p + up_p**2, 0.0))
    high = np.sqrt(max(up_q**2 - 2 * phi * up_q * down_p + down_p**2, 0.0))
    return float(diff - low), float(diff + high)


def combine_mean(parts: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Return the mean of independent estimates (value, low, high) with its interval, by variance recovery (MOVER)."""
    value, low, high = np.array(parts, float).T
    k = len(parts)
    centre = value.mean()
    return (
        float(centre),
        float(centre - np.sqrt(((value - low) ** 2).sum()) / k),
        float(centre + np.sqrt(((high - value) ** 2).sum()) / k),
    )


def t_interval(
    values: ArrayLike, level: float = LEVEL, axis: int = -1
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return (mean, low, high) over an axis, by Student's t. Raises ValueError for fewer than two values."""
    from scipy.special import stdtrit

    x = np.asarray(values, float)
    n = x.shape[axis]
    if n < 2:
        raise ValueError("an interval over seeds needs at least two seeds")
    mean = x.mean(axis=axis)
    half = stdtrit(n - 1, 0.5 + level / 2) * x.std(axis=axis, ddof=1) / np.sqrt(n)
    return mean, mean - half, mean + half


def upper_bound(values: ArrayLike, level: float) -> float:
    """Return the one-sided upper confidence bound of the mean of at least two independent values (Student's t)."""
    from scipy.special import stdtrit

    x = np.asarray(values, float)
    return float(x.mean() + stdtrit(len(x) - 1, level) * x.std(ddof=1) / np.sqrt(len(x)))


def welch_lower_bound(first: ArrayLike, second: ArrayLike, level: float) -> float:
    """Return the one-sided lower bound of mean(first) - mean(second) (Welch); the difference itself without spread."""
    from scipy.special import stdtrit

    x, y = np.asarray(first, float), np.asarray(second, float)
    parts = np.array([x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)])
    difference, error = float(x.mean() - y.mean()), float(np.sqrt(parts.sum()))
    if error == 0:
        return difference
    freedom = parts.sum() ** 2 / (parts**2 / (np.array([len(x), len(y)]) - 1)).sum()
    return difference - float(stdtrit(freedom, level)) * error


def bootstrap_mean(
    values: ArrayLike, seed: int, resamples: int = 10_000, level: float = LEVEL
) -> tuple[float, float, float]:
    """Return (mean, low, high) of a vector by the percentile bootstrap; for a pair, pass the differences."""
    x = np.asarray(values, float)
    rng = np.random.default_rng(seed)
    means = np.concatenate(  # in blocks, to limit memory
        [
            x[rng.integers(len(x), size=(min(1000, resamples - i), len(x)))].mean(axis=1)
            for i in range(0, resamples, 1000)
        ]
    )
    low, high = np.quantile(means, [0.5 - level / 2, 0.5 + level / 2])
    return float(x.mean()), float(low), float(high)
