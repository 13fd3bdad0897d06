"""A quantity: a named number that is measured of one run; a run's success rates are the first of them.

quantity.measure(results, run)      # Measurement(value=0.28, ...), or Absent("not evaluated")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plat.peak import peak_of
from plat.words.metric_names import SUCCESS
from plat_analysis.data.results import Results, RunView
from plat_analysis.statistics.intervals import LEVEL, newcombe_paired, newcombe_unpaired


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


# A run's success rates (peak, held-out, final, base), and the rule by which a run fell after its peak.

HELDOUT_SUCCESS = "heldout/success"  # of the peak checkpoint
HELDOUT_FINAL_SUCCESS = "heldout/final_success"
HELDOUT_BASE_SUCCESS = "heldout/base_success"  # before training
LEAST_FALL = 0.05  # of success; smaller falls are not mentioned


@dataclass(frozen=True)
class Fall:
    """Hold a fall after the peak: success at the peak and at the end, in [0, 1].

    measured  the instances: `held-out` or `validation`
    """

    peak: float
    final: float
    measured: str

    def __str__(self) -> str:
        return f"fell after its peak, {100 * self.peak:.1f} → {100 * self.final:.1f} % ({self.measured})"


def peak_score(results: Results, run: RunView) -> Measurement | None:
    """Return the largest validation success over all evaluations (the first of equal ones); None without one."""
    steps, values = results.curve(run.id, SUCCESS)
    peak = peak_of(zip(steps.tolist(), values.tolist(), strict=True))
    return None if peak is None else _validation(results, run, int(np.searchsorted(steps, peak[0])))


def last_score(results: Results, run: RunView) -> Measurement | None:
    """Return validation success at the last evaluation; None without an evaluation."""
    steps, _ = results.curve(run.id, SUCCESS)
    return _validation(results, run, len(steps) - 1) if len(steps) else None


def heldout_score(results: Results, run: RunView) -> Measurement | None:
    """Return success of the peak checkpoint on the held-out instances; None when it was not measured."""
    return _heldout(results, run, HELDOUT_SUCCESS, "peak", -1)


def final_heldout_score(results: Results, run: RunView) -> Measurement | None:
    """Return success of the final checkpoint on the held-out instances; None when it was not measured."""
    return _heldout(results, run, HELDOUT_FINAL_SUCCESS, "final", -1)


def base_score(results: Results, run: RunView) -> Measurement | None:
    """Return success of the base model on the held-out instances, before training; None when it was not measured."""
    return _heldout(results, run, HELDOUT_BASE_SUCCESS, "base", 0)


def final_score(results: Results, run: RunView) -> Measurement | None:
    """Return success of the final checkpoint: held-out where that was measured, else the last validation."""
    return final_heldout_score(results, run) or last_score(results, run)


def _quantity(name: str, score: Callable[[Results, RunView], Measurement | None]) -> Quantity:
    """Return a success rate as a quantity in percent."""
    return Quantity(name, lambda results, run: score(results, run) or Absent("not evaluated"), 100.0, (0.0, 100.0))


SUCCESSES: Mapping[str, Quantity] = {
    "peak": _quantity("peak", peak_score),
    "heldout": _quantity("heldout", heldout_score),
    "final": _quantity("final", final_score),
    "base": _quantity("base", base_score),
}


def fall_after_peak(results: Results, run: RunView) -> Fall | None:
    """Return the fall of a run after its peak; None if no fall is shown.

    A fall is at least 5 points, and the 95 % interval of the difference (Newcombe) lies below zero. The interval is
    paired if the success of single instances is stored for both checkpoints.
    The instances are the held-out ones if both checkpoints were measured on them, because they did not choose the peak.
    Otherwise they are the validation instances, and the error of 5 % is divided by the number of evaluations after the
    first: a peak is the largest of several noisy evaluations, so the last one lies below it even if nothing was lost.
    """
    peak, final = heldout_score(results, run), final_heldout_score(results, run)
    measured, choices = "held-out", 1
    if peak is None or final is None:
        peak, final = peak_score(results, run), last_score(results, run)
        measured, choices = "validation", max(1, len(results.curve(run.id, SUCCESS)[0]) - 1)
    if peak is None or final is None or peak.value - final.value < LEAST_FALL:
        return None
    bounds = _difference(peak, final, 1 - (1 - LEVEL) / choices)
    return Fall(peak.value, final.value, measured) if bounds is not None and bounds[1] < 0 else None


def _difference(before: Measurement, after: Measurement, level: float) -> tuple[float, float] | None:
    x, y = before.instances, after.instances
    if x is not None and y is not None and x.shape == y.shape and np.isin([x, y], (0, 1)).all():
        return newcombe_paired(x, y, level)
    if before.count and after.count:
        return newcombe_unpaired(before.value, before.count, after.value, after.count, level)
    return None


def _validation(results: Results, run: RunView, index: int) -> Measurement:
    steps, values = results.curve(run.id, SUCCESS)
    instances = results.instances(run.id, ("val_instances",), step=int(steps[index]))
    return _score(float(values[index]), instances, run, "instances", int(steps[index]))


def _heldout(results: Results, run: RunView, metric: str, role: str, index: int) -> Measurement | None:
    steps, values = results.curve(run.id, metric)
    instances = results.instances(run.id, (f"heldout_{role}", "heldout_instances"), role=role)
    if len(values):
        return _score(float(values[index]), instances, run, "heldout", int(steps[index]))
    return None if instances is None else _score(float(instances.mean()), instances, run, "heldout", None)


def _score(
    value: float, instances: NDArray[np.float64] | None, run: RunView, key: str, step: int | None
) -> Measurement:
    if instances is not None and abs(float(instances.mean()) - value) > 1e-6:
        instances = None  # they belong to another number and must not be paired
    count = len(instances) if instances is not None else int((run.run.config.get("eval") or {}).get(key) or 0)
    return Measurement(value, instances, count, step)
