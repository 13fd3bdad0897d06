"""From the values of single runs to an estimate over runs.

A replicate is one run, or one pair of runs, named by the build of its base model and its seed. What counts as an
independent unit depends on what the estimate is about:

- `fixed`: these builds and no others. Builds are strata: the mean of their means, with the variance between seeds
  pooled within them. Where there is one build, that is all that its runs can say.
- `random`: builds like these. From three builds on, the unit is the mean of each build. Where one seed occurs under
  several builds (a crossed design), what these runs share through the seed is a second source of chance: the variances
  of the mean over builds and over seeds are then added, with the smaller number of degrees of freedom. That is
  conservative, since their interaction counts twice. Two builds have a mean and no interval.

An interval takes two degrees of freedom (`MIN_UNITS` seeds or builds); a star or a verdict takes `MIN_JUDGED` units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from plat_analysis.statistics.intervals import LEVEL, Estimate

MIN_UNITS = 3
Builds = Literal["fixed", "random"]


class Replicate(NamedTuple):
    """Names a run, or a pair of runs, among those of a cell. `build` is None where the base model has no builds."""

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
    """Mean over the units, with Student's t interval from two degrees of freedom on.

    values    one number for each replicate
    rounding  standard deviation of the rounding of one such number (success is counted on a grid of 1/instances). A
              spread below it cannot be told from rounding, so the spread is taken as at least that
    seedless  the seeds have no part in the values, as in those of a base model before training: builds are the units
    builds    whether the estimate is about these builds (`fixed`), or about builds like these (`random`)
    facts     go into the Estimate: wanted, run_ids, note
    """
    if not values:
        return Estimate(**facts)
    if builds == "random" and (seedless or len(_groups(values, 0)) > 1):
        return _over_builds(values, rounding, seedless, facts)
    if seedless:  # these builds have one value each: there is no chance in their mean
        means = _means(values, 0)
        return Estimate(value=sum(means) / len(means), seeds=len(values), about=_these(len(means)), **facts)
    return _over_seeds(values, rounding, facts)


def _over_seeds(values: Mapping[Replicate, float], rounding: float, facts: Mapping[str, Any]) -> Estimate:
    """Builds as strata. One build is one stratum."""
    strata = list(_groups(values, 0).values())
    freedom = len(values) - len(strata)
    squares = sum((len(stratum) - 1) * float(np.var(stratum, ddof=1)) for stratum in strata if len(stratum) > 1)
    deviation = (squares / freedom) ** 0.5 if freedom else None
    mean = sum(sum(stratum) / len(stratum) for stratum in strata) / len(strata)
    about = _these(len(strata))
    estimate = Estimate(value=mean, seeds=len(values), deviation=deviation, about=about, **facts)
    if deviation is None or freedom < MIN_UNITS - 1:
        return estimate
    error = max(deviation, rounding) * sum(1 / len(stratum) for stratum in strata) ** 0.5 / len(strata)
    estimate = replace(estimate, over="seeds", samples=(tuple(values.values()),))
    return _with_interval(estimate, error, len(values), freedom)


def _over_builds(
    values: Mapping[Replicate, float], rounding: float, seedless: bool, facts: Mapping[str, Any]
) -> Estimate:
    """Builds as units, and seeds where they are crossed with them."""
    of_builds, of_seeds = _means(values, 0), _means(values, 1)
    mean = sum(of_builds) / len(of_builds)
    deviation = float(np.std(of_builds, ddof=1)) if len(of_builds) > 1 else None
    estimate = Estimate(value=mean, seeds=len(values), deviation=deviation, about="such builds", **facts)
    if len(of_builds) < MIN_UNITS or (len(of_seeds) < MIN_UNITS and not seedless):
        return estimate
    crossed = not seedless and len(of_seeds) < len(values)
    samples = (of_builds, of_seeds) if crossed else (of_builds,)
    variance = sum(_variance_of_mean(sample, rounding) for sample in samples)
    estimate = replace(estimate, over="builds", samples=samples)
    units = min(map(len, samples))
    return _with_interval(estimate, variance**0.5, units, units - 1)


def _these(builds: int) -> str:
    return "this build" if builds == 1 else f"these {builds} builds"


def _groups(values: Mapping[Replicate, float], part: int) -> dict[Any, list[float]]:
    """The values of each build (part 0) or each seed (part 1)."""
    groups: dict[Any, list[float]] = {}
    for replicate, value in values.items():
        groups.setdefault(replicate[part], []).append(value)
    return groups


def _means(values: Mapping[Replicate, float], part: int) -> tuple[float, ...]:
    return tuple(sum(group) / len(group) for group in _groups(values, part).values())


def _variance_of_mean(numbers: tuple[float, ...], rounding: float) -> float:
    return max(float(np.var(numbers, ddof=1)), rounding**2) / len(numbers)


def _with_interval(estimate: Estimate, error: float, units: int, freedom: int) -> Estimate:
    from scipy.special import stdtrit

    assert estimate.value is not None
    half = float(stdtrit(freedom, 0.5 + LEVEL / 2)) * error
    low, high = estimate.value - half, estimate.value + half
    return replace(estimate, low=low, high=high, error=error, units=units, freedom=freedom)
