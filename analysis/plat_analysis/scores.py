"""One run's success rates: at its best validation, of that checkpoint on held-out instances, and before training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plat_analysis.results import Results, RunView


@dataclass(frozen=True)
class Score:
    """A success rate in [0, 1], with the success of each instance behind it when the store has it.

    `count` is the number of instances, known from the config even where only their mean was recorded.
    """

    value: float
    instances: NDArray | None = None
    count: int = 0
    step: int | None = None


def peak_score(results: Results, run: RunView) -> Score | None:
    """The largest validation success over all evaluations (the first of equal ones); None without an evaluation."""
    steps, values = results.curve(run.id, "val/success")
    if not len(values):
        return None
    best = int(np.argmax(values))
    instances = results.instances(run.id, ("val_instances",), step=int(steps[best]))
    return _score(float(values[best]), instances, run, "instances", int(steps[best]))


def heldout_score(results: Results, run: RunView) -> Score | None:
    """Success of the peak checkpoint on the held-out instances; None when it was not measured."""
    steps, values = results.curve(run.id, "heldout/success")
    instances = results.instances(run.id, ("heldout_peak", "heldout_instances"), role="peak")
    if len(values):
        return _score(float(values[-1]), instances, run, "heldout", int(steps[-1]))
    return None if instances is None else _score(float(instances.mean()), instances, run, "heldout", None)


def base_score(results: Results, run: RunView) -> Score | None:
    """Success of the base model on the held-out instances, before training; None when it was not measured."""
    _, values = results.curve(run.id, "heldout/base_success")
    instances = results.instances(run.id, ("heldout_base", "heldout_instances"), role="base")
    if len(values):
        return _score(float(values[0]), instances, run, "heldout", 0)
    return None if instances is None else _score(float(instances.mean()), instances, run, "heldout", 0)


def _score(value: float, instances: NDArray | None, run: RunView, key: str, step: int | None) -> Score:
    if instances is not None and abs(float(instances.mean()) - value) > 1e-6:
        instances = None  # not the instances behind this number, so they must not be paired with others
    count = len(instances) if instances is not None else int((run.run.config.get("eval") or {}).get(key) or 0)
    return Score(value, instances, count, step)
