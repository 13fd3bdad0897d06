"""Predict where further runs lie from earlier ones, and how many may lie elsewhere by chance.

Each build of a base model has its own level, and seeds vary around it with one spread pooled over builds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plat_analysis.statistics.intervals import LEVEL

MIN_RUNS = 5  # with fewer, t is large and coverage depends on a normal shape
MIN_BUILDS = 3  # least builds to estimate the spread between builds
Range = tuple[float, float, float]


def prediction_interval(
    values: Mapping[Any, Sequence[float]], more: Mapping[Any, int], rounding: float = 0.0, level: float = LEVEL
) -> Range | None:
    """Return (centre, low, high) of the mean over builds of the means of further values; None with too few values.

    With one build: mean ± t s √(1/more + 1/n), exact for normal values where builds have one spread. Where a build of
    `more` has no earlier values, the spread between builds is added, which takes `MIN_BUILDS` builds.

    values    build -> its earlier values
    more      build -> how many further values there are
    rounding  standard deviation of the rounding of one value; the least spread between seeds
    """
    from scipy.special import stdtrit

    groups = {build: np.asarray(group, float) for build, group in values.items() if len(group)}
    freedom = sum(len(group) - 1 for group in groups.values())
    if freedom < MIN_RUNS - 1 or not more:
        return None
    within = max(sum(float(((group - group.mean()) ** 2).sum()) for group in groups.values()) / freedom, rounding**2)
    if all(build in groups for build in more):
        centre = float(np.mean([groups[build].mean() for build in more]))
        variance = within * sum(1 / count + 1 / len(groups[build]) for build, count in more.items()) / len(more) ** 2
    elif len(groups) < MIN_BUILDS:
        return None
    else:
        means = np.array([group.mean() for group in groups.values()])
        of_means, runs_of_each = float(means.var(ddof=1)), float(np.mean([1 / len(group) for group in groups.values()]))
        between = max(0.0, of_means - within * runs_of_each)
        ahead = between + within * float(np.mean([1 / count for count in more.values()]))
        centre, variance, freedom = float(means.mean()), of_means / len(means) + ahead / len(more), len(means) - 1
    half = float(stdtrit(freedom, 0.5 + level / 2)) * variance**0.5
    return centre, centre - half, centre + half


def too_few(values: Mapping[Any, Sequence[float]], more: Mapping[Any, int]) -> str:
    """Return how many of the needed values there are: `4 of 5` runs, or `1 of 3 builds`; "" where there are enough."""
    groups = [group for group in values.values() if len(group)]
    runs, needed = sum(map(len, groups)), MIN_RUNS - 1 + len(groups)
    if runs < needed:
        return f"{runs} of {needed}"
    if len(groups) < MIN_BUILDS and not all(values.get(build) for build in more):
        return f"{len(groups)} of {MIN_BUILDS} builds"
    return ""


def chance_of_as_many(outside: int, ranges: int, level: float = LEVEL) -> float:
    """Return the probability that at least `outside` of `ranges` independent values lie outside by chance."""
    from scipy.special import bdtrc

    return 1.0 if outside <= 0 else float(bdtrc(outside - 1, ranges, 1 - level))
