"""Pruners: Optuna's on the objective, and `retrieval` on the reasoning.

The seeds of a trial run one after another, so a bad trial costs only part of one run. At position `k (iterations + 1) +
step` Optuna's curve has the mean of the final values of the first k seeds and the present value of the next. So equal
positions of two trials have seen equally many seeds and steps.

`retrieval` does not compare trials. It stops a run whose reasoning no longer depends on its prompt while its entropy
stays up; success shows this later or never. All of these must hold over the last `patience` measurements:

- retrieval is at most `near_chance` above chance, its null for a policy that ignores its prompt;
- it was higher earlier, by more than `fall`;
- H(Z|X) is at least the share `entropy` of its first value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plat.search.search_settings import Chosen
from plat.search.values import Curve
from plat.trainer.api import RETRIEVAL

CHANCE = "mi/first_turn/retrieval_chance"
ENTROPY = "mi/first_turn/h_z_given_x"
WATCHED = (RETRIEVAL, CHANCE, ENTROPY)


def make_pruner(chosen: Chosen) -> Any:
    """Return the Optuna pruner of a setting; None for `none` and `retrieval`."""
    from optuna import pruners

    options = chosen.options
    if chosen.name == "median":
        return pruners.MedianPruner(n_startup_trials=options["startup"], n_warmup_steps=options["warmup"])
    if chosen.name in ("successive_halving", "asha"):  # Optuna's is asynchronous; the defaults differ
        return pruners.SuccessiveHalvingPruner(
            min_resource=max(1, options["min_steps"]), reduction_factor=max(2, options["reduction"])
        )
    return None


def collapse_seen(curves: Mapping[str, Curve] | Any, step: int, options: Mapping[str, float]) -> str:
    """Return why the pruner `retrieval` stops a run at this step, in one line; "" if it does not stop the run."""
    retrieval, chance, entropy = (curves[metric] for metric in WATCHED)
    steps = [at for at in sorted(retrieval) if at <= step and at in chance and at in entropy]
    patience = max(1, int(options["patience"]))
    if len(steps) <= patience:
        return ""
    above = [retrieval[at] - chance[at] for at in steps]
    recent, earlier = above[-patience:], max(above[:-patience])
    fell = max(recent) <= options["near_chance"] and earlier - max(recent) > options["fall"]
    least = options["entropy"] * entropy[steps[0]]
    if not fell or min(entropy[at] for at in steps[-patience:]) < least:
        return ""
    return (
        f"retrieval fell from {earlier:.2f} to {max(recent):.2f} above chance at step {step}, with H(Z|X) at "
        f"{entropy[steps[-1]]:.2f} of {entropy[steps[0]]:.2f}"
    )
