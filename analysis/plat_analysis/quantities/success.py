"""One run's success rates: at its best validation, of that checkpoint and of the last one on held-out instances, and
before training; and whether the run fell after its peak.

A peak is the largest of several noisy evaluations, so the last evaluation lies below it even where nothing was lost.
That a run fell is therefore said by a stated rule only: see `fall_after_peak`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plat_analysis.data.runs import SUCCESS, Results, RunView
from plat_analysis.quantities.quantity import Absent, Measurement, Quantity
from plat_analysis.statistics.intervals import LEVEL, newcombe_paired, newcombe_unpaired

LEAST_FALL = 0.05  # of success; a smaller fall is not mentioned, however sure


@dataclass(frozen=True)
class Fall:
    """A run that fell after its peak: success then and at the end, in [0, 1], on `measured` instances (`held-out` or
    `validation`)."""

    peak: float
    final: float
    measured: str

    def __str__(self) -> str:
        return f"fell after its peak, {100 * self.peak:.1f} → {100 * self.final:.1f} % ({self.measured})"


def peak_score(results: Results, run: RunView) -> Measurement | None:
    """The largest validation success over all evaluations (the first of equal ones); None without an evaluation."""
    _, values = results.curve(run.id, SUCCESS)
    return _validation(results, run, int(np.argmax(values))) if len(values) else None


def last_score(results: Results, run: RunView) -> Measurement | None:
    """Validation success at the last evaluation; None without an evaluation."""
    steps, _ = results.curve(run.id, SUCCESS)
    return _validation(results, run, len(steps) - 1) if len(steps) else None


def heldout_score(results: Results, run: RunView) -> Measurement | None:
    """Success of the peak checkpoint on the held-out instances; None when it was not measured."""
    return _heldout(results, run, "heldout/success", "peak", -1)


def final_heldout_score(results: Results, run: RunView) -> Measurement | None:
    """Success of the final checkpoint on the held-out instances; None when it was not measured."""
    return _heldout(results, run, "heldout/final_success", "final", -1)


def base_score(results: Results, run: RunView) -> Measurement | None:
    """Success of the base model on the held-out instances, before training; None when it was not measured."""
    return _heldout(results, run, "heldout/base_success", "base", 0)


def final_score(results: Results, run: RunView) -> Measurement | None:
    """Success of the final checkpoint: on the held-out instances where that was measured, else the last validation."""
    return final_heldout_score(results, run) or last_score(results, run)


def _quantity(name: str, score: Callable[[Results, RunView], Measurement | None]) -> Quantity:
    """A success rate as a quantity in percent."""
    return Quantity(name, lambda results, run: score(results, run) or Absent("not evaluated"), 100.0, (0.0, 100.0))


SUCCESSES: Mapping[str, Quantity] = {
    "peak": _quantity("peak", peak_score),
    "heldout": _quantity("heldout", heldout_score),
    "final": _quantity("final", final_score),
    "base": _quantity("base", base_score),
}


def fall_after_peak(results: Results, run: RunView) -> Fall | None:
    """The fall of a run after its peak, or None.

    The rule: at least 5 points, and shown to be a fall by a paired 95 % interval of the two checkpoints over the same
    instances (Newcombe). On the held-out instances where the final checkpoint was measured on them, because those did
    not choose the peak. Otherwise on the validation instances, where the level is divided by the number of evaluations
    among which the peak was chosen.
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
        instances = None  # not the instances behind this number, so they must not be paired with others
    count = len(instances) if instances is not None else int((run.run.config.get("eval") or {}).get(key) or 0)
    return Measurement(value, instances, count, step)
