"""Intervals for success rates and their paired differences. Pure functions of arrays.

Two sources of chance are kept apart and named in `Estimate.over`:

- `instances`: one seed, so only the draw of the fixed evaluation instances is measured (Wilson; Newcombe for pairs);
- `seeds`: several seeds, each one number, so only the spread of training is measured (Student's t, paired by seed).

`bootstrap_mean` makes no assumption on the shape of the distribution and takes its random seed explicitly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number with its interval and where it comes from. `value` is None when it is missing; `note` then says why.

    `seeds` of `wanted` seeds are behind it; `over` is what the interval ranges over: instances, seeds, or "" for none.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    over: str = ""
    seeds: int = 0
    wanted: int = 0
    run_ids: tuple[str, ...] = ()
    note: str = ""

    @property
    def complete(self) -> bool:
        return self.value is not None and self.seeds == self.wanted

    @property
    def sign(self) -> int:
        """+1 or -1 when the interval lies wholly on one side of zero, else 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    def scaled(self, factor: float) -> Estimate:
        """The same estimate in another unit, e.g. 100 for percent."""

        def times(number: float | None) -> float | None:
            return None if number is None else number * factor

        return replace(self, value=times(self.value), low=times(self.low), high=times(self.high))


def wilson(successes: ArrayLike, trials: ArrayLike, level: float = LEVEL) -> tuple[NDArray, NDArray]:
    """Wilson score interval of a proportion, elementwise: (low, high), each in [0, 1]."""
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


def _square_and_add(diff, down_q, up_p, up_q, down_p, phi) -> tuple[float, float]:
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


def t_interval(values: ArrayLike, level: float = LEVEL, axis: int = -1) -> tuple[NDArray, NDArray, NDArray]:
    """Mean over an axis of at least two values and Student's t interval: (mean, low, high)."""
    x = np.asarray(values, float)
    n = x.shape[axis]
    if n < 2:
        raise ValueError("an interval over seeds needs at least two of them")
    mean = x.mean(axis=axis)
    half = stdtrit(n - 1, 0.5 + level / 2) * x.std(axis=axis, ddof=1) / np.sqrt(n)
    return mean, mean - half, mean + half


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


def over_seeds(values: Sequence[float], **facts) -> Estimate:
    """Mean over seeds; an interval from two seeds on. `facts` go into the Estimate (wanted, run_ids, note)."""
    if not len(values):
        return Estimate(**facts)
    if len(values) == 1:
        return Estimate(value=float(values[0]), seeds=1, **facts)
    mean, low, high = (float(part) for part in t_interval(values))
    return Estimate(value=mean, low=low, high=high, over="seeds", seeds=len(values), **facts)
