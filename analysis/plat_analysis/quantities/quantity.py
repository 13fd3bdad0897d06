"""A quantity: a number that is measured of one run, by name.

quantity.measure(results, run)      # Measurement(value=0.28, ...), or Absent("not evaluated")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plat_analysis.data.runs import Results, RunView


@dataclass(frozen=True)
class Measurement:
    """The value of a quantity in one run.

    value      in the unit in which it is recorded; a share in [0, 1]
    instances  0 or 1 for each instance whose mean it is, where the store has them
    count      how many instances, known from the config even where their mean alone was recorded; 0: no such mean
    step       the iteration at which it was measured
    """

    value: float
    instances: NDArray[np.float64] | None = None
    count: int = 0
    step: int | None = None


@dataclass(frozen=True)
class Absent:
    """Why a run has no value: `not run`, `failed:oom`, `not evaluated`."""

    why: str


@dataclass(frozen=True)
class Quantity:
    """What is measured of a run, and how it is shown.

    name      as tables, records and claims call it
    of        (results, run) -> its value, or why there is none
    factor    what values are multiplied by to be shown: 100 for percent
    bounds    the smallest and the largest value that can be shown, of which intervals end
    digits    shown behind the decimal point
    seedless  a run's seed has no part in it, as in what is measured of its base model: builds alone are units
    metrics   the metrics that runs must log for it
    """

    name: str
    of: Callable[[Results, RunView], Measurement | Absent]
    factor: float = 1.0
    bounds: tuple[float, float] | None = None
    digits: int = 1
    seedless: bool = False
    metrics: tuple[str, ...] = ()

    def measure(self, results: Results, run: RunView) -> Measurement | Absent:
        """The value of a run; for one without a result, why it has none."""
        return Absent(run.missing) if run.missing else self.of(results, run)
