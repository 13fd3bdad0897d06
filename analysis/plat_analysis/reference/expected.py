"""What a reference says of one value of a report: the mean of earlier runs, and where one more is expected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from plat_analysis.statistics.prediction import prediction_interval, too_few
from plat_analysis.statistics.replicates import Replicate

ROUNDING = 1e-9  # a value that is so close to an end of its range differs by arithmetic only


@dataclass(frozen=True)
class Expected:
    """What a reference says of a value: the mean of its `runs` (or pairs of runs), and the range in which the report's
    `own` value is expected. `low` and `high` are None where they are too few; `lacking` then says `4 of 5`."""

    mean: float | None
    low: float | None
    high: float | None
    runs: int
    own: float | None
    lacking: str = ""

    @property
    def outside(self) -> bool:
        """Whether there are a range and a value, and the value lies outside."""
        if self.own is None or self.low is None or self.high is None:
            return False
        return not self.low - ROUNDING <= self.own <= self.high + ROUNDING


def expected(
    values: Mapping[Replicate, float],
    own: float | None,
    more: Iterable[Replicate],
    rounding: float = 0.0,
    limits: tuple[float, float] | None = None,
) -> Expected:
    """Where the mean of further runs is expected, inside of `limits`: around the level of their builds, where the
    reference has those (`statistics.prediction`).

    values  what the earlier runs came to
    own     what the further runs came to; None where there is none yet
    more    the further runs
    """
    if not values:
        return Expected(None, None, None, 0, own)
    by_build = _by_build(values)
    counts = Counter(replicate.build for replicate in more)
    found = prediction_interval(by_build, counts, rounding)
    builds = [build for build in counts if build in by_build] or list(by_build)
    if found is None:
        mean = float(np.mean([np.mean(by_build[build]) for build in builds]))
        return Expected(mean, None, None, len(values), own, too_few(by_build, counts))
    mean, low, high = found
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    return Expected(mean, low, high, len(values), own)


def _by_build(values: Mapping[Replicate, float]) -> dict[Any, list[float]]:
    groups: dict[Any, list[float]] = {}
    for replicate, value in values.items():
        groups.setdefault(replicate.build, []).append(value)
    return groups
