"""Optuna's pruners, which compare trials by their objective. `run_pruner` has those that judge one run.

The seeds of a trial run one after another, so a bad trial costs only part of one run. At position `k (iterations + 1) +
step` Optuna's curve has the mean of the final values of the first k seeds and the present value of the next. So equal
positions of two trials have seen equally many seeds and steps.
"""

from __future__ import annotations

from typing import Any

from plat.search.search_settings import Chosen


def make_pruner(chosen: Chosen) -> Any:
    """Return the Optuna pruner of a setting; None for `none` and those of plug-ins."""
    from optuna import pruners

    options = chosen.options
    if chosen.name == "median":
        return pruners.MedianPruner(n_startup_trials=options["startup"], n_warmup_steps=options["warmup"])
    if chosen.name in ("successive_halving", "asha"):  # Optuna's is asynchronous; the defaults differ
        return pruners.SuccessiveHalvingPruner(
            min_resource=max(1, options["min_steps"]), reduction_factor=max(2, options["reduction"])
        )
    return None
