"""Check what the tests of a mean assume: symmetric values, and builds whose seeds have nothing in common.

Student's t and sign flips test a mean of zero only where values are symmetric about it. A treatment that usually gains
a little and rarely loses much has a mean of zero and most samples above it. No test of ten values can exclude a loss
that none of them shows; `one_sided` finds one that some of them shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from plat_analysis.statistics.replicates import Replicate, grouped

FURTHER = 2.5  # one end of the values is this many times as far from the mean as the other
MIN_VALUES = 5
COMMON = 0.05  # probability to find common seeds where there are none


class OneSided(NamedTuple):
    """Hold the median of values that are skewed, and the value that is furthest from their mean."""

    median: float
    furthest: float


def one_sided(values: Sequence[float]) -> OneSided | None:
    """Return the median and the furthest value where one end is `FURTHER` times as far from the mean as the other.

    It finds a loss of 22.5 among gains of 2.5 with spread 1 in 8 of 10 samples of five that contain one, and in 9 of 10
    of ten. Of normal samples it finds 2 % (five values) and 1 % (ten). Return None otherwise, or below `MIN_VALUES`.
    """
    if len(values) < MIN_VALUES:
        return None
    mean = sum(values) / len(values)
    below, above = mean - min(values), max(values) - mean
    if max(below, above) <= FURTHER * min(below, above) or min(below, above) <= 0:
        return None
    return OneSided(float(median(values)), min(values) if below > above else max(values))


def sign_p(values: Sequence[float]) -> float:
    """Return the one-sided p-value of "a value is above zero as often as below, or less often" (sign test)."""
    from scipy.special import bdtrc

    above, below = sum(value > 0 for value in values), sum(value < 0 for value in values)
    return float(bdtrc(above - 1, above + below, 0.5)) if above else 1.0


class CommonSeeds(NamedTuple):
    """Hold the correlation of values of one seed on different builds, its p-value, and the number of seeds."""

    correlation: float
    p: float
    seeds: int


def common_seeds(values: Mapping[Replicate, float]) -> CommonSeeds | None:
    """Return how far the values of one seed agree across builds; None unless every build has every seed.

    It is the intraclass correlation without the levels of the builds, (MSs - MSe) / (MSs + (B - 1) MSe), with the F
    test of MSs / MSe. Values of one build vary independently of those of another one if it is zero. Two builds and two
    seeds are the least.
    """
    from scipy.special import fdtrc

    of_builds, of_seeds = grouped(values, 0), grouped(values, 1)
    builds, seeds = len(of_builds), len(of_seeds)
    if builds < 2 or seeds < 2 or len(values) < builds * seeds:
        return None
    table = np.array([[values[Replicate(build, seed)] for seed in of_seeds] for build in of_builds])
    table = table - table.mean(axis=1, keepdims=True)
    of_seed = builds * float(table.mean(axis=0).var(ddof=1))
    residual = float(((table - table.mean(axis=0)) ** 2).sum()) / ((builds - 1) * (seeds - 1))
    if of_seed + residual <= 0:
        return None
    correlation = (of_seed - residual) / (of_seed + (builds - 1) * residual)
    p = float(fdtrc(seeds - 1, (builds - 1) * (seeds - 1), of_seed / residual)) if residual > 0 else 0.0
    return CommonSeeds(correlation, p, seeds)
