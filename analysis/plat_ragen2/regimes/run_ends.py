"""Define start and end of each quantity in a run, and the treatment's change of them.

A run that was stopped early, has fewer measurements than the end averages over, or has no measurable entropy left, is
left out with the reason, because its end is not comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from plat.spec.expansion.experiment import Experiment
from plat.units import counted
from plat.words.metric_names import SUCCESS
from plat.words.outcomes import is_stopped
from plat_analysis.artifact import Cell as Shown
from plat_analysis.artifact import Note, Row, Table
from plat_analysis.contrasts.cell import Cell, Contrast, Term, change
from plat_analysis.data.results import Curve, Results, RunView
from plat_analysis.quantities.quantity import Absent, Measurement, Quantity
from plat_analysis.reference.reference_cells import beside, expected
from plat_analysis.reference.reference_runs import reference_of
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.tables.reference_lines import (
    OUTSIDE,
    TOO_FEW,
    WHY_TOO_FEW,
    mean_cell,
    range_cell,
    reference_caption,
    reference_notes,
)
from plat_ragen2.regimes.probe_tables import PROBED, entropy_curve

# quantity -> (metric or SUCCESS, printed name, digits); `{scope}`: of the mutual-information proxies
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
RETURNED = 4  # evaluations averaged for the end of the return, whose costs are small beside the noise of one
COLUMNS = ("change", "change_treated", "difference")


def metric_of(quantity: str, scope: str) -> str:
    """Return the metric of a quantity for a scope of the mutual-information proxies."""
    return QUANTITIES[quantity][0].format(scope=scope)


def ends_of(
    results: Results,
    run: RunView,
    quantity: str,
    scope: str,
    last: int,
    beside: Callable[[str], str | None] | None = None,
) -> tuple[Measurement | Absent, Measurement | Absent]:
    """Return start (first measurement) and end of a quantity; twice the reason if the end is not comparable.

    The end is the last evaluation for quantities of evaluations and probes, the mean of the last `RETURNED` for the
    return, else the mean of the `last` measurements on training batches. `beside` maps the quantity's metric to one
    that is measured with it, such as the chance level, whose start and end are returned in its place.
    """
    evaluated, (steps, values) = _curve(results, run, quantity, scope, beside)
    reasons = []
    if len(values) and is_stopped(run.outcome):
        reasons.append(f"{run.outcome} at step {int(steps[-1])}")
    if len(values) and evaluated and quantity == "entropy":
        if steps[-1] < results.curve(run.id, PROBED["retrieval"])[0][-1]:
            reasons.append(f"no reasoning is left after step {int(steps[-1])}")
    averaged = RETURNED if quantity == "returns" else 1 if evaluated else last
    if len(values) < max(2, averaged):
        reasons.append(counted(len(values), "measurement") if len(values) else "not measured")
    if reasons:
        return Absent(", ".join(reasons)), Absent(", ".join(reasons))
    return Measurement(float(values[0])), Measurement(float(np.mean(values[-averaged:])))


def _curve(
    results: Results, run: RunView, quantity: str, scope: str, beside: Callable[[str], str | None] | None
) -> tuple[bool, Curve]:
    """Return True if evaluations measure a quantity, and its curve: that of the probe where there is one."""
    if beside is not None:
        probed = quantity in PROBED and len(results.curve(run.id, PROBED["retrieval"])[0]) > 0
        return probed, results.curve(run.id, str(beside(PROBED[quantity] if probed else metric_of(quantity, scope))))
    if quantity in PROBED and len(results.curve(run.id, PROBED["retrieval"])[0]):
        curve = entropy_curve(results, run) if quantity == "entropy" else results.curve(run.id, PROBED[quantity])
        return True, curve
    return quantity in VALIDATED, results.curve(run.id, metric_of(quantity, scope))


def contrasts(quantity: str, scope: str, last: int, baseline: str, treatment: str) -> dict[str, Contrast]:
    """Return key of `COLUMNS` -> contrast: the change from start to end of either condition, the difference of ends."""

    def part(name: str, at: int) -> Quantity:
        return Quantity(f"{quantity}_{name}", lambda results, run: ends_of(results, run, quantity, scope, last)[at])

    start, end = part("start", 0), part("end", 1)
    return {
        "change": Contrast(Term(baseline, end), Term(baseline, start)),
        "change_treated": Contrast(Term(treatment, end), Term(treatment, start)),
        "difference": change(end, baseline, treatment),
    }


# Add the reference to the table of ends: the values of earlier runs of the same settings.


class EndsReference:
    """Hold the reference of the table of ends; without runs to compare, only a note is added.

    Raises BundleError if the bundle is damaged.

    cell     the runs of the table
    metrics  those that are read of the reference
    """

    def __init__(self, experiment: Experiment, cell: Cell, metrics: set[str]) -> None:
        self.experiment = experiment
        self.reference = reference_of(experiment, metrics, tables=True)
        own = {run.id for run in experiment.runs}
        self.cell = None if self.reference is None else beside(cell, self.reference, without=own)
        self.own = list(next(iter(cell.sides.values())).runs)
        self.is_empty = self.cell is None or not self.cell.wanted

    def lines(self, contrasts: Mapping[str, Contrast], own: Mapping[str, Estimate], digits: int) -> list[Row]:
        """Return the rows `reference` and `range` under one quantity of the table; [] if there is nothing to compare.

        contrasts  column -> what is estimated; it is computed here on the reference's runs
        own        column -> the table's own estimate; each column gets a cell
        digits     decimals of the cells

        `reference` is the mean of the earlier runs. `range` is where the own value is expected (95 % prediction
        interval); it is marked if that value lies outside. A row begins with its name and ends with an empty cell.
        """
        if self.cell is None or self.is_empty:
            return []
        cells = [
            expected(
                self.cell.by_replicate(contrasts[column]), estimate.value, self.own if estimate.seeds else self.own[:1]
            )
            for column, estimate in own.items()
        ]
        return [
            Row((Shown("reference", tone="dim"), *(mean_cell(cell, True, digits) for cell in cells), Shown())),
            Row((Shown("range", tone="dim"), *(range_cell(cell, True, digits) for cell in cells), Shown())),
        ]

    def explain(self, table: Table) -> None:
        """Explain the lines, or why there are none, in the table's caption and notes."""
        table.notes += reference_notes(self.experiment, self.reference is not None and self.is_empty)
        if self.reference is None or self.is_empty:
            return
        table.caption += reference_caption(self.experiment)
        if any(cell.text.startswith(TOO_FEW) for row in table.rows for cell in row.cells):
            table.notes.append(Note(WHY_TOO_FEW))
        if any(cell.mark == OUTSIDE for row in table.rows for cell in row.cells):
            table.notes.append(
                Note(
                    "outside the reference range. By chance, one cell of twenty is; cells of one run are related.",
                    OUTSIDE,
                )
            )
