"""What a reference says of one value of a report: the mean of earlier runs, and where one more is expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plat_analysis.statistics.prediction import MIN_RUNS, prediction_interval

ROUNDING = 1e-9  # a value that is so close to an end of its range differs by arithmetic only


@dataclass(frozen=True)
class Expected:
    """What a reference says of a value: the mean of its `runs` (or pairs of runs), and the range in which the report's
    `own` value is expected. `low` and `high` are None below MIN_RUNS."""

    mean: float | None
    low: float | None
    high: float | None
    runs: int
    own: float | None

    @property
    def outside(self) -> bool:
        """Whether there are a range and a value, and the value lies outside."""
        if self.own is None or self.low is None or self.high is None:
            return False
        return not self.low - ROUNDING <= self.own <= self.high + ROUNDING


def expected(
    values: Sequence[float],
    own: float | None,
    more: int,
    rounding: float = 0.0,
    limits: tuple[float, float] | None = None,
) -> Expected:
    """The range for the mean of `more` further values (one where there is none yet), inside of `limits`."""
    if not values:
        return Expected(None, None, None, 0, own)
    if len(values) < MIN_RUNS:
        return Expected(float(np.mean(values)), None, None, len(values), own)
    mean, low, high = prediction_interval(values, max(1, more), rounding)
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    return Expected(mean, low, high, len(values), own)
