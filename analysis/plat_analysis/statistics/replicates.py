"""A mean over replicates: its estimate, and where further ones lie.

Replicates are runs, or pairs of runs, named by the build of their base model and their seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from plat_analysis.statistics.intervals import LEVEL, Estimate

MIN_UNITS = 3  # least units for an interval
SUCH_BUILDS = "such builds"  # `Estimate.about` of an interval over builds
Builds = Literal["fixed", "random"]


class Replicate(NamedTuple):
    """Name a run, or a pair of runs, among those of a cell. `build` is None where the base model has no builds."""

    build: Any
    seed: Any

    def __str__(self) -> str:
        return f"seed {self.seed}" if self.build is None else f"build {self.build} seed {self.seed}"


def over_replicates(
    values: Mapping[Replicate, float],
    rounding: float = 0.0,
    seedless: bool = False,
    builds: Builds = "random",
    **facts: Any,
) -> Estimate:
    """Return the mean over the units, with Student's t interval from two degrees of freedom on; no value for {}.

    values    one number for each replicate
    rounding  standard deviation of the rounding of one number (success is counted on a grid of 1/instances); the least
              spread
    seedless  the values do not depend on the seed, as those of a base model before training: builds are the units, and
              with `fixed` builds the mean has no interval
    builds    `fixed`: about these builds. They are strata: the mean of their means, with the variance between seeds
              pooled. `random`: about builds like these. With one build as `fixed`; with more, the units are means of
              builds. Where every build has every seed, both vary the mean (`_crossed_variance`). Where some pairs are
              missing, the variances of the mean over builds and over seeds are added, with the smaller degrees of
              freedom (conservative: the residual is counted twice). Two builds have a mean and no interval
    facts     go into the Estimate: wanted, run_ids, note
    """
    if not values:
        return Estimate(**facts)
    facts = {**facts, "values": values}
    if builds == "random" and (seedless or len(grouped(values, 0)) > 1):
        return _over_builds(values, rounding, seedless, facts)
    if seedless:  # one value for each of these builds: their mean has no sampling error
        means = _means(values, 0)
        return Estimate(value=sum(means) / len(means), seeds=len(values), about=these_builds(values), **facts)
    return _over_seeds(values, rounding, facts)


def _over_seeds(values: Mapping[Replicate, float], rounding: float, facts: Mapping[str, Any]) -> Estimate:
    """Estimate with builds as strata; one build is one stratum."""
    strata = list(grouped(values, 0).values())
    freedom = len(values) - len(strata)
    squares = sum((len(stratum) - 1) * float(np.var(stratum, ddof=1)) for stratum in strata if len(stratum) > 1)
    deviation = (squares / freedom) ** 0.5 if freedom else None
    mean = sum(sum(stratum) / len(stratum) for stratum in strata) / len(strata)
    about = these_builds(values)
    estimate = Estimate(value=mean, seeds=len(values), deviation=deviation, about=about, **facts)
    if deviation is None or freedom < MIN_UNITS - 1:
        return estimate
    error = max(deviation, rounding) * sum(1 / len(stratum) for stratum in strata) ** 0.5 / len(strata)
    estimate = replace(estimate, over="seeds", samples=(tuple(values.values()),))
    return _with_interval(estimate, error, len(values), freedom)


def _over_builds(
    values: Mapping[Replicate, float], rounding: float, seedless: bool, facts: Mapping[str, Any]
) -> Estimate:
    """Estimate with builds as units, and seeds where they are crossed with builds."""
    of_builds, of_seeds = _means(values, 0), _means(values, 1)
    mean = sum(of_builds) / len(of_builds)
    deviation = float(np.std(of_builds, ddof=1)) if len(of_builds) > 1 else None
    estimate = Estimate(value=mean, seeds=len(values), deviation=deviation, about=SUCH_BUILDS, **facts)
    if len(of_builds) < MIN_UNITS or (len(of_seeds) < MIN_UNITS and not seedless):
        return estimate
    crossed = not seedless and len(of_seeds) < len(values)
    samples = (of_builds, of_seeds) if crossed else (of_builds,)
    parts = [max(float(np.var(sample, ddof=1)), rounding**2) / len(sample) for sample in samples]
    estimate = replace(estimate, over="builds", samples=samples)
    units = min(map(len, samples))
    if not crossed or len(values) < len(of_builds) * len(of_seeds):
        return _with_interval(estimate, sum(parts) ** 0.5, units, units - 1)
    variance, freedom = _crossed_variance(values, *parts)
    return _with_interval(estimate, variance**0.5, units, freedom)


def _crossed_variance(values: Mapping[Replicate, float], of_builds: float, of_seeds: float) -> tuple[float, float]:
    """Return the variance of the mean, and its degrees of freedom, where every build has every seed.

    With B builds, S seeds and the mean squares of an analysis of variance without replication, the variance is
    (MSb + MSs - MSe) / (B S) (both mean squares contain the residual), and at least the larger of MSb / (B S) and
    MSs / (B S). The degrees of freedom are Satterthwaite's, and at least min(B, S) - 1.

    Args:
        values: replicate -> its value.
        of_builds: variance of the mean over builds, MSb / (B S); at least that of rounding.
        of_seeds: the same over seeds, MSs / (B S).
    """
    table = np.array(_by_build_and_seed(values))
    builds, seeds = table.shape
    residual = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    degrees = (builds - 1, seeds - 1, (builds - 1) * (seeds - 1))
    of_residual = float((residual**2).sum()) / degrees[2] / table.size
    variance = max(of_builds + of_seeds - of_residual, of_builds, of_seeds)
    squares = sum(part**2 / n for part, n in zip((of_builds, of_seeds, of_residual), degrees, strict=True))
    return variance, max(variance**2 / squares if squares else 0.0, min(builds, seeds) - 1)


def _by_build_and_seed(values: Mapping[Replicate, float]) -> list[list[float]]:
    """Return the values [build, seed] of a complete crossing."""
    builds, seeds = grouped(values, 0), grouped(values, 1)
    return [[values[Replicate(build, seed)] for seed in seeds] for build in builds]


def these_builds(values: Mapping[Replicate, Any]) -> str:
    """Return the builds of these replicates in words; "" for runs without builds."""
    builds = list(grouped(values, 0))
    if builds == [None]:
        return ""
    return "this build" if len(builds) == 1 else f"these {len(builds)} builds"


def grouped(values: Mapping[Replicate, float], part: int) -> dict[Any, list[float]]:
    """Return build -> its values (part 0), or seed -> its values (part 1)."""
    groups: dict[Any, list[float]] = {}
    for replicate, value in values.items():
        groups.setdefault(replicate[part], []).append(value)
    return groups


def _means(values: Mapping[Replicate, float], part: int) -> tuple[float, ...]:
    return tuple(sum(group) / len(group) for group in grouped(values, part).values())


def _with_interval(estimate: Estimate, error: float, units: int, freedom: float) -> Estimate:
    from scipy.special import stdtrit

    assert estimate.value is not None
    half = float(stdtrit(freedom, 0.5 + LEVEL / 2)) * error
    low, high = estimate.value - half, estimate.value + half
    return replace(estimate, low=low, high=high, error=error, units=units, freedom=freedom)


# Predict where further runs lie from earlier ones, and how many may lie elsewhere by chance.
#
# Each build of a base model has its own level, and seeds vary around it with one spread pooled over builds.

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
