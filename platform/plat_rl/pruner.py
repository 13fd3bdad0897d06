"""The pruner `retrieval`: it stops a run whose reasoning no longer depends on its prompt while its entropy stays up.

It does not compare trials: success shows such a collapse later or never. All of these must hold over the last
`patience` measurements:

- retrieval is at most `near_chance` above chance, its null for a policy that ignores its prompt;
- it was higher earlier, by more than `fall`;
- H(Z|X) is at least the share `entropy` of its first value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plat.search.run_pruner import Curve, RunPruner

RETRIEVAL = "mi/first_turn/retrieval_acc"
CHANCE = "mi/first_turn/retrieval_chance"
ENTROPY = "mi/first_turn/h_z_given_x"
WATCHED = (RETRIEVAL, CHANCE, ENTROPY)


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


SPEC = RunPruner(
    options={"near_chance": 0.1, "fall": 0.1, "entropy": 0.5, "patience": 2}, metrics=WATCHED, judge=collapse_seen
)
