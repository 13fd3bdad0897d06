"""From the values of single runs to an estimate over runs.

A replicate is one run, or one pair of runs, named by the build of its base model and its seed. What counts as an
independent unit depends on what varies:

- one build: the seeds. What another build of the base model would give stays unknown.
- three builds or more: the mean of each build. Where one seed occurs under several builds (a crossed design), what
  these runs share through the seed is a second source of chance: the variances of the mean over builds and over seeds
  are then added, with the smaller number of degrees of freedom. That is conservative, since their interaction counts
  twice.
- two builds: there are fewer than three units, so there is a mean and no interval.

Below three seeds, or three builds where they vary, there is no interval over runs: see `MIN_UNITS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from plat_analysis.statistics.intervals import LEVEL, Estimate

MIN_UNITS = 3


class Replicate(NamedTuple):
    """Names a run, or a pair of runs, among those of a cell. `build` is None where the base model has no builds."""

    build: Any
    seed: Any

    def __str__(self) -> str:
        return f"seed {self.seed}" if self.build is None else f"build {self.build} seed {self.seed}"


def over_replicates(
    values: Mapping[Replicate, float], rounding: float = 0.0, seedless: bool = False, **facts: Any
) -> Estimate:
    """Mean over the units, with Student's t interval from three units on.

    values    one number for each replicate
    rounding  standard deviation of the rounding of one such number (success is counted on a grid of 1/instances). A
              spread below it cannot be told from rounding, so the spread is taken as at least that
    seedless  the seeds have no part in the values, as in those of a base model before training: builds are the units
    facts     go into the Estimate: wanted, run_ids, note
    """
    if not values:
        return Estimate(**facts)
    builds, seeds = _means(values, 0), _means(values, 1)
    units = builds if seedless or len(builds) > 1 else seeds
    mean = sum(units.values()) / len(units)
    deviation = float(np.std(list(units.values()), ddof=1)) if len(units) > 1 else None
    estimate = Estimate(value=mean, seeds=len(values), deviation=deviation, **facts)
    if len(units) < MIN_UNITS or (len(seeds) < MIN_UNITS and not seedless):
        return estimate
    variance, freedom = _variance_of_mean(units, rounding), len(units)
    crossed = not seedless and len(builds) > 1 and len(seeds) < len(values)
    if crossed:
        variance += _variance_of_mean(seeds, rounding)
        freedom = min(freedom, len(seeds))
    return _with_interval(estimate, float(np.sqrt(variance)), freedom, "builds" if units is builds else "seeds")


def _means(values: Mapping[Replicate, float], part: int) -> dict[Any, float]:
    """Mean for each build (part 0) or each seed (part 1)."""
    groups: dict[Any, list[float]] = {}
    for replicate, value in values.items():
        groups.setdefault(replicate[part], []).append(value)
    return {key: sum(group) / len(group) for key, group in groups.items()}


def _variance_of_mean(units: Mapping[Any, float], rounding: float) -> float:
    numbers = list(units.values())
    return max(float(np.var(numbers, ddof=1)), rounding**2) / len(numbers)


def _with_interval(estimate: Estimate, error: float, units: int, over: str) -> Estimate:
    from scipy.special import stdtrit

    assert estimate.value is not None
    half = float(stdtrit(units - 1, 0.5 + LEVEL / 2)) * error
    return replace(estimate, low=estimate.value - half, high=estimate.value + half, over=over, error=error, units=units)
