"""The pruner `retrieval`: it stops a run whose reasoning no longer depends on its prompt while its entropy stays up.

It does not compare trials: success shows such a collapse later or never. All of these must hold over the last
`patience` measurements:

- retrieval is at most `near_chance` above chance, its null for a policy that ignores its prompt;
- it was higher earlier, by more than `fall`;
- H(Z|X) is at least the share `entropy` of its first value;
- the reasonings that were scored are not fewer than half of the most that an earlier measurement had. The accuracy of
  the few that are left says little about the policy. A run that does not log this number is judged without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plat.search.run_pruner import Curve, RunPruner

RETRIEVAL = "mi/first_turn/retrieval_acc"
CHANCE = "mi/first_turn/retrieval_chance"
ENTROPY = "mi/first_turn/h_z_given_x"
VALID = "mi/first_turn/valid_reasonings"
WATCHED = (RETRIEVAL, CHANCE, ENTROPY, VALID)


def collapse_seen(curves: Mapping[str, Curve] | Any, step: int, options: Mapping[str, float]) -> str:
    """Return why the pruner `retrieval` stops a run at this step, in one line; "" if it does not stop the run.

    The line has the accuracy and its chance, both shares in [0, 1], and the number of valid reasonings if it is logged.
    """
    retrieval, chance, entropy = (curves[metric] for metric in (RETRIEVAL, CHANCE, ENTROPY))
    valid: Curve = curves.get(VALID) or {}
    steps = [at for at in sorted(retrieval) if at <= step and at in chance and at in entropy]
    patience = max(1, int(options["patience"]))
    if len(steps) <= patience:
        return ""
    above = {at: retrieval[at] - chance[at] for at in steps}
    earlier, recent = steps[:-patience], steps[-patience:]
    best, worst = max(earlier, key=above.__getitem__), max(recent, key=above.__getitem__)
    fell = above[worst] <= options["near_chance"] and above[best] - above[worst] > options["fall"]
    least = options["entropy"] * entropy[steps[0]]
    if not fell or min(entropy[at] for at in recent) < least or _few_are_left(valid, earlier, recent):
        return ""

    def shown(at: int) -> str:
        counted = f", {valid[at]:.0f} valid reasonings" if at in valid else ""
        return f"{retrieval[at]:.2f} (chance {chance[at]:.2f}{counted})"

    return (
        f"retrieval fell from {shown(best)} to {shown(worst)} at step {step}, with H(Z|X) at "
        f"{entropy[steps[-1]]:.2f} of {entropy[steps[0]]:.2f}"
    )


def _few_are_left(valid: Curve, earlier: list[int], recent: list[int]) -> bool:
    """Return True if a recent measurement has fewer than half of the reasonings of an earlier one."""
    most = max((valid[at] for at in earlier if at in valid), default=0.0)
    return any(2 * valid[at] < most for at in recent if at in valid)


SPEC = RunPruner(
    options={"near_chance": 0.1, "fall": 0.1, "entropy": 0.5, "patience": 2}, metrics=WATCHED, judge=collapse_seen
)
