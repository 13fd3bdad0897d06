"""Intervals for success rates and their paired differences. Pure functions of arrays.

Sources of chance are kept apart and named in `Estimate.over`:

- `seeds`, `builds`: from three on, each one number, so the spread between runs is measured (Student's t);
- `instances`: one seed, so only the draw of the evaluation instances is measured (Wilson; Newcombe for pairs). Such an
  interval says nothing about another run: it never decides a star or a claim.

`bootstrap_mean` makes no assumption on the shape of the distribution and takes its random seed explicitly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
MIN_JUDGED = 5  # a star or a verdict takes as many independent units: seeds, or builds where such builds are meant
TINY = 1e-12  # a standard error below this is rounding of the arithmetic


@dataclass(frozen=True)
class Estimate:
    """A number with its interval and where it comes from. `value` is None when it is missing; `note` then says why.

    seeds, wanted  how many of the wanted runs, or pairs of runs, are behind it
    over           what the 95 % interval ranges over: builds, seeds, instances, or "" without one
    error, units   standard error over `units` independent units (seeds or builds); None below three of them
    freedom        degrees of freedom of that error
    about          of which builds of the base model the interval speaks: `this build`, `these 2 builds`, `such builds`
    samples        the values of the units, for tests by sign flips: one sample for each source of chance
    deviation      standard deviation between the units, from two on
    star           +1 or -1 when its table decided, all cells together, that it is above or below zero; else 0
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
    freedom: int = 0
    about: str = ""
    samples: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    deviation: float | None = None
    star: int = 0

    @property
    def complete(self) -> bool:
        """Whether there is a value and every wanted run is behind it."""
        return self.value is not None and self.seeds == self.wanted

    @property
    def judged(self) -> bool:
        """Whether it may decide a star or a verdict: every wanted run is there, and there are enough units."""
        return self.complete and self.error is not None and self.freedom + 1 >= MIN_JUDGED

    def p_below(self, bound: float) -> float | None:
        """One-sided p-value of "the true value is at least `bound`", by Student's t: small when it is shown to be
        below. None without an error over seeds or builds."""
        return self._p(bound, 1)

    def p_above(self, bound: float) -> float | None:
        """One-sided p-value of "the true value is at most `bound`": small when it is shown to be above."""
        return self._p(bound, -1)

    def _p(self, bound: float, side: int) -> float | None:
        if self.value is None or self.error is None:
            return None
        if self.error <= TINY * max(1.0, abs(self.value)):  # no spread was seen, so nothing is shown
            return 1.0
        from scipy.special import stdtr

        return float(stdtr(self.freedom, side * (self.value - bound) / self.error))

    def scaled(self, factor: float) -> Estimate:
        """The same estimate in another unit, e.g. 100 for percent; a negative factor turns its interval round."""

        def times(number: float | None) -> float | None:
            return None if number is None else number * factor

        low, high = (times(self.low), times(self.high)) if factor >= 0 else (times(self.high), times(self.low))
        error, deviation = (None if sd is None else sd * abs(factor) for sd in (self.error, self.deviation))
        samples = tuple(tuple(value * factor for value in sample) for sample in self.samples)
        return replace(
            self, value=times(self.value), low=low, high=high, error=error, deviation=deviation, samples=samples
        )


def wilson(
    successes: ArrayLike, trials: ArrayLike, level: float = LEVEL
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson score interval of a proportion, elementwise: (low, high), each in [0, 1]."""
    from scipy.special import ndtri

    hits, n = np.asarray(successes, float), np.asarray(trials, float)
    z = ndtri(0.5 + level / 2)
    p = hits / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # at 0 and n successes the bound is exactly 0 or 1; rounding must not move it
    return np.where(hits == 0, 0.0, centre - half), np.where(hits == n, 1.0, centre + half)


def newcombe_paired(first: ArrayLike, second: ArrayLike, level: float = LEVEL) -> tuple[float, float]:
    """Interval of mean(second) - mean(first) for two 0/1 vectors on the same instances (Newcombe 1998, method 10).

    Behaves where the naive interval does not: no width of zero when both vectors are equal, never outside [-1, 1].
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
    """Interval of q - p for proportions of n and m independent trials (Newcombe 1998, method 10 for two samples)."""
    (low_p, low_q), (high_p, high_q) = wilson([p * n, q * m], [n, m], level)
    return _square_and_add(q - p, q - low_q, high_p - p, high_q - q, p - low_p, 0.0)


def _square_and_add(
    diff: float, down_q: float, up_p: float, up_q: float, down_p: float, phi: float
) -> tuple[float, float]:
    low = np.sqrt(max(down_q**2 - 2 * phi * down_q * up_p + up_p**2, 0.0))
    high = np.sqrt(max(up_q**2 - 2 * phi * up_q * down_p + down_p**2, 0.0))
    return float(diff - low), float(diff + high)


def combine_mean(parts: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Mean of independent estimates (value, low, high), with an interval by variance recovery (MOVER)."""
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
    """Mean over an axis of at least two values and Student's t interval: (mean, low, high)."""
    from scipy.special import stdtrit

    x = np.asarray(values, float)
    n = x.shape[axis]
    if n < 2:
        raise ValueError("an interval over seeds needs at least two of them")
    mean = x.mean(axis=axis)
    half = stdtrit(n - 1, 0.5 + level / 2) * x.std(axis=axis, ddof=1) / np.sqrt(n)
    return mean, mean - half, mean + half


def upper_bound(values: ArrayLike, level: float) -> float:
    """One-sided upper confidence bound of the mean of independent values (Student's t; at least two)."""
    from scipy.special import stdtrit

    x = np.asarray(values, float)
    return float(x.mean() + stdtrit(len(x) - 1, level) * x.std(ddof=1) / np.sqrt(len(x)))


def welch_lower_bound(first: ArrayLike, second: ArrayLike, level: float) -> float:
    """One-sided lower confidence bound of mean(first) - mean(second), two independent samples of unequal variance."""
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
    """Mean and percentile bootstrap interval of a vector (for a paired difference: of the differences)."""
    x = np.asarray(values, float)
    rng = np.random.default_rng(seed)
    means = np.concatenate(  # in blocks, so that memory stays small for long vectors
        [
            x[rng.integers(len(x), size=(min(1000, resamples - i), len(x)))].mean(axis=1)
            for i in range(0, resamples, 1000)
        ]
    )
    low, high = np.quantile(means, [0.5 - level / 2, 0.5 + level / 2])
    return float(x.mean()), float(low), float(high)
