"""A quantity: a named number that is measured of one run.

quantity.measure(results, run)      # Measurement(value=0.28, ...), or Absent("not evaluated")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plat_analysis.data.results import Results, RunView


@dataclass(frozen=True)
class Measurement:
    """Hold the value of a quantity in one run.

    value      in the unit in which it is recorded; a share in [0, 1]
    instances  shape (count,), 0 or 1 for each instance the value is the mean of, where stored; else None
    count      number of these instances; from the config if they are not stored; 0 if it is not a mean over instances
    step       the iteration at which it was measured; None if it has no single one
    """

    value: float
    instances: NDArray[np.float64] | None = None
    count: int = 0
    step: int | None = None


@dataclass(frozen=True)
class Absent:
    """Hold why a run has no value: `not run`, `failed:oom`, `not evaluated`."""

    why: str


@dataclass(frozen=True)
class Quantity:
    """Define what is measured of a run, and how it is shown.

    name      in tables, records and claims
    of        (results, run) -> the value of the run, or why it has none
    factor    multiplies values for display: 100 for percent
    bounds    the smallest and the largest shown value; intervals are clipped to them
    digits    shown behind the decimal point
    seedless  independent of the run's seed, as measures of its base model: builds alone are units
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
        """Return the value of a run, or why it has none."""
        return Absent(run.missing) if run.missing else self.of(results, run)
