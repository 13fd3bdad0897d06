"""What the treatment changes by the end of training: start and end of each quantity, and the paired difference of the
ends.

What the evaluations measure (success and moves on the validation instances; retrieval, H(Z|X) and fluency on the
probe's fresh reasonings) ends with the last evaluation. The end of anything else, and of the latter three in runs
without probes, is the mean of the last measurements on the batches of training.

A run that was stopped early, that has fewer measurements than the end averages over, or that has no reasoning left
whose entropy could be measured, has no end that could be compared with those of other runs. It is left out, with the
reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from plat.outcomes import is_stopped
from plat_analysis.artifact import (
    Cell,
    Column,
    Note,
    Row,
    Table,
    interval,
    number,
    provenance,
    record,
    short_interval,
    tone_of,
)
from plat_analysis.regimes.probe import PROBED, entropy_curve
from plat_analysis.regimes.reference_ends import EndsReference
from plat_analysis.results.labels import label
from plat_analysis.results.runs import SUCCESS, Curve, Results, RunView
from plat_analysis.statistics.families import starred
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Replicate, over_replicates

# quantity -> (metric or SUCCESS, name in print, digits); `{scope}` is that of the mutual-information proxies
QUANTITIES = {
    "retrieval": ("mi/{scope}/retrieval_acc", "retrieval accuracy", 2),
    "entropy": ("mi/{scope}/h_z_given_x", "H(Z|X), nats", 2),
    "actor_entropy": ("actor/entropy", "policy entropy, nats", 2),
    "success": (SUCCESS, "validation success", 2),
    "moves": ("val/moves_per_turn", "moves per turn", 2),
    "parses": ("rollout/reasoning_parses", "reasonings that parse", 2),
}
VALIDATED = ("success", "moves")  # measured at each evaluation, on the validation instances
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

    The end is the last evaluation for what evaluations measure, else the mean of the `last` measurements.
    """
    evaluated, (steps, values) = _curve(results, run, quantity, scope)
    if not len(values):
        return None
    reasons = [run.missing]
    if is_stopped(run.outcome):
        reasons.append(f"{run.outcome} at step {int(steps[-1])}")
    if evaluated and quantity == "entropy" and steps[-1] < results.curve(run.id, PROBED["retrieval"])[0][-1]:
        reasons.append(f"no reasoning is left after step {int(steps[-1])}")
    averaged = 1 if evaluated else last
    if len(values) < max(2, averaged):
        reasons.append(f"{len(values)} measurement{'s' * (len(values) != 1)}")
    return End(float(values[0]), float(np.mean(values[-averaged:])), ", ".join(filter(None, reasons)))


def _curve(results: Results, run: RunView, quantity: str, scope: str) -> tuple[bool, Curve]:
    """Whether evaluations measure a quantity, and its curve: that of the probe where there is one."""
    if quantity in PROBED and len(results.curve(run.id, PROBED["retrieval"])[0]):
        curve = entropy_curve(results, run) if quantity == "entropy" else results.curve(run.id, PROBED[quantity])
        return True, curve
    return quantity in VALIDATED, results.curve(run.id, metric_of(quantity, scope))


def differences_table(
    results: Results,
    conditions: Mapping[str, Mapping[Replicate, RunView]],
    baseline: str,
    treatment: str,
    scope: str,
    last: int,
    name: str,
    reference: EndsReference | None = None,
) -> Table:
    """Change from start to end in each condition, and the paired difference of the ends; with a reference, beside those
    of earlier runs."""
    untreated, treated = conditions.get(baseline, {}), conditions.get(treatment, {})
    estimates: dict[tuple[str, str], Estimate] = {}
    absent: dict[str, str] = {}
    for quantity in QUANTITIES:
        sides = [_ends(results, runs, quantity, scope, last) for runs in (untreated, treated)]
        absent[quantity] = _absent([*untreated.items()], sides[0]) + _absent([*treated.items()], sides[1])
        values = values_of(results, untreated, treated, quantity, scope, last)
        for column, runs in zip(COLUMNS, ((untreated,), (treated,), (untreated, treated)), strict=True):
            estimates[quantity, column] = over_replicates(
                values[column],
                wanted=len(set().union(*runs)),
                run_ids=tuple(side[replicate].id for replicate in values[column] for side in runs),
                note=absent[quantity] if column == "difference" else "",
            )
    shown = _with_stars(estimates)
    return _table(shown, absent, baseline, treatment, last, name, reference)


def values_of(
    results: Results,
    untreated: Mapping[Replicate, RunView],
    treated: Mapping[Replicate, RunView],
    quantity: str,
    scope: str,
    last: int,
) -> dict[str, dict[Replicate, float]]:
    """Each of COLUMNS -> the value of each replicate that has an end: the change of either condition, and the
    difference of the ends of both."""
    first, second = (
        {
            r: end
            for r, end in _ends(results, runs, quantity, scope, last).items()
            if end is not None and not end.left_out
        }
        for runs in (untreated, treated)
    )
    return {
        "change": {replicate: end.end - end.start for replicate, end in first.items()},
        "change_treated": {replicate: end.end - end.start for replicate, end in second.items()},
        "difference": {r: second[r].end - first[r].end for r in first if r in second},
    }


def _ends(
    results: Results, runs: Mapping[Replicate, RunView], quantity: str, scope: str, last: int
) -> dict[Replicate, End | None]:
    return {replicate: end_of(results, run, quantity, scope, last) for replicate, run in runs.items()}


def _absent(runs: list[tuple[Replicate, RunView]], ends: Mapping[Replicate, End | None]) -> str:
    """`name: reason` of every run that is left out, each followed by `; `."""
    reasons = []
    for replicate, run in runs:
        end = ends[replicate]
        reason = run.missing or ("not measured" if end is None else end.left_out)
        if reason:
            reasons.append(f"{run.run.name}: {reason}; ")
    return "".join(sorted(reasons))


def _with_stars(estimates: Mapping[tuple[str, str], Estimate]) -> dict[tuple[str, str], Estimate]:
    """The estimates with their stars. All cells of the table are one family for Holm's procedure. Quantities have
    different units, so no quantity's spread is used for another (each is a column of its own here)."""
    return {
        key: estimate for cell in starred([{key: e} for key, e in estimates.items()]) for key, estimate in cell.items()
    }


def _table(
    estimates: Mapping[tuple[str, str], Estimate],
    absent: Mapping[str, str],
    baseline: str,
    treatment: str,
    last: int,
    name: str,
    reference: EndsReference | None,
) -> Table:
    table = Table(
        name=name,
        title=f"What {label(treatment)} changes by the end of training",
        columns=[
            Column("", numeric=False),
            Column("end − start", label(baseline)),
            Column("end − start", label(treatment)),
            Column("of the ends", "difference"),
            Column("seeds"),
        ],
        rows=[],
        caption=(
            f"Means over seeds; the difference is {label(treatment)} minus {label(baseline)}, paired by seed. "
            "Starred: not zero by Student's t, with the error over the table held at 5 % (Holm); the intervals "
            "are the plain 95 % ones of single cells, over seeds, from three on."
        ),
        notes=[
            Note(
                "Success and moves: of the first and the last evaluation, on the validation instances. Retrieval, "
                "H(Z|X) and reasonings that parse: of the first and the last probe of fresh reasonings, where there "
                "are probes. All else: on the batches of training, from the first measurement to the mean of the "
                f"last {last}."
            )
        ],
    )
    for quantity, (_, title, digits) in QUANTITIES.items():
        values, bounds = [Cell(title, tone="strong")], [Cell("95 %", tone="dim")]
        for column in COLUMNS:
            estimate = estimates[quantity, column]
            values.append(_value_cell(estimate, digits))
            bounds.append(_bounds_cell(estimate, digits))
            table.records.append(record(estimate, quantity=quantity, what=column))
            if estimate.value is not None:
                table.values[f"{name}/{quantity}/{column}"] = estimate.value
        gap = estimates[quantity, "difference"]
        seeds = Cell(f"{gap.seeds}/{gap.wanted}", tone="dim" if gap.complete else "missing", title=provenance(gap))
        table.rows += [Row((*values, seeds), rule=True), Row((*bounds, Cell()))]
        if reference is not None:
            own = {column: estimates[quantity, column] for column in COLUMNS}
            table.rows += reference.lines(quantity, own, digits)
    table.notes += [Note(text) for text in _left_out(absent)]
    if reference is not None:
        reference.explain(table)
    return table


def _value_cell(estimate: Estimate, digits: int) -> Cell:
    return Cell(number(estimate.value, digits, signed=True), tone=tone_of(estimate), title=provenance(estimate))


def _bounds_cell(estimate: Estimate, digits: int) -> Cell:
    bounds = interval(estimate, digits, signed=True)
    if not bounds:
        bounds = {0: "missing", 1: "one seed"}.get(estimate.seeds, f"{estimate.seeds} seeds")
    narrow = short_interval(estimate, signed=True, digits=digits) or bounds
    return Cell(bounds, shorter=(narrow,), tone="dim", title=provenance(estimate))


def _left_out(absent: Mapping[str, str]) -> list[str]:
    """One sentence for each reason, with the quantities that it concerns unless it concerns all."""
    quantities: dict[str, list[str]] = {}
    for quantity, reasons in absent.items():
        if reasons:
            quantities.setdefault(reasons.removesuffix("; "), []).append(QUANTITIES[quantity][1])
    everything = len(QUANTITIES)
    about = {r: "" if len(titles) == everything else f" ({', '.join(titles)})" for r, titles in quantities.items()}
    return [f"Left out{about[reasons]}: {reasons}." for reasons in quantities]
