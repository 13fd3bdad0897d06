"""Start and end of each quantity in a run, and what a treatment changes in them.

What the evaluations measure (success, return and moves on the validation instances; retrieval, H(Z|X) and fluency on
the fresh reasonings of the probe) ends with the last evaluation, and the return with the mean of the last four. The
return is what a policy is trained on: it says whether what the policy lost was of use to it. The end of anything else,
and of the quantities of the probe in runs without probes, is the mean of the last measurements on training batches.

A run that was stopped early, that has fewer measurements than the end averages over, or that has no reasoning left
whose entropy could be measured, has no end that could be compared with those of other runs. It is left out, with the
reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plat.outcomes import is_stopped
from plat_analysis.contrasts.contrast import Contrast, Term, change
from plat_analysis.data.runs import SUCCESS, Curve, Results, RunView
from plat_analysis.quantities.quantity import Absent, Measurement, Quantity
from plat_analysis.regimes.probe import PROBED, entropy_curve

# quantity -> (metric or SUCCESS, name in print, digits); `{scope}` is that of the mutual-information proxies
QUANTITIES = {
    "retrieval": ("mi/{scope}/retrieval_acc", "retrieval accuracy", 2),
    "entropy": ("mi/{scope}/h_z_given_x", "H(Z|X), nats", 2),
    "actor_entropy": ("actor/entropy", "policy entropy, nats", 2),
    "success": (SUCCESS, "validation success", 2),
    "returns": ("val/return", "validation return", 3),
    "moves": ("val/moves_per_turn", "moves per turn", 2),
    "parses": ("rollout/reasoning_parses", "reasonings that parse", 2),
}
VALIDATED = ("success", "returns", "moves")  # measured at each evaluation, on the validation instances
RETURNED = 4  # the end of the return is the mean of so many evaluations: the costs in it are small beside one's noise
COLUMNS = ("change", "change_treated", "difference")


@dataclass(frozen=True)
class End:
    """Start and end of a quantity in one run; `left_out` says why the end does not compare, or is empty."""

    start: float
    end: float
    left_out: str = ""


def metric_of(quantity: str, scope: str) -> str:
    """The metric of a quantity for a scope of the mutual-information proxies."""
    return QUANTITIES[quantity][0].format(scope=scope)


def end_of(results: Results, run: RunView, quantity: str, scope: str, last: int) -> End | None:
    """Start (first measurement) and end of a quantity; None where it was not measured.

    The end is the last evaluation for what evaluations measure, for the return the mean of the last `RETURNED`, else
    the mean of the `last` measurements.
    """
    evaluated, (steps, values) = _curve(results, run, quantity, scope)
    if not len(values):
        return None
    reasons = [run.missing]
    if is_stopped(run.outcome):
        reasons.append(f"{run.outcome} at step {int(steps[-1])}")
    if evaluated and quantity == "entropy" and steps[-1] < results.curve(run.id, PROBED["retrieval"])[0][-1]:
        reasons.append(f"no reasoning is left after step {int(steps[-1])}")
    averaged = RETURNED if quantity == "returns" else 1 if evaluated else last
    if len(values) < max(2, averaged):
        reasons.append(f"{len(values)} measurement{'s' * (len(values) != 1)}")
    return End(float(values[0]), float(np.mean(values[-averaged:])), ", ".join(filter(None, reasons)))


def _curve(results: Results, run: RunView, quantity: str, scope: str) -> tuple[bool, Curve]:
    """Whether evaluations measure a quantity, and its curve: that of the probe where there is one."""
    if quantity in PROBED and len(results.curve(run.id, PROBED["retrieval"])[0]):
        curve = entropy_curve(results, run) if quantity == "entropy" else results.curve(run.id, PROBED[quantity])
        return True, curve
    return quantity in VALIDATED, results.curve(run.id, metric_of(quantity, scope))


def quantities(quantity: str, scope: str, last: int) -> tuple[Quantity, Quantity]:
    """Start and end of a quantity, as quantities of a run."""

    def part(name: str) -> Quantity:
        def of(results: Results, run: RunView) -> Measurement | Absent:
            end = end_of(results, run, quantity, scope, last)
            if end is None:
                return Absent("not measured")
            return Absent(end.left_out) if end.left_out else Measurement(getattr(end, name))

        return Quantity(f"{quantity}_{name}", of)

    return part("start"), part("end")


def contrasts(quantity: str, scope: str, last: int, baseline: str, treatment: str) -> dict[str, Contrast]:
    """Each of COLUMNS: the change from start to end of either condition, and the difference of the ends of both."""
    start, end = quantities(quantity, scope, last)
    return {
        "change": Contrast(Term(baseline, end), Term(baseline, start)),
        "change_treated": Contrast(Term(treatment, end), Term(treatment, start)),
        "difference": change(end, baseline, treatment),
    }
