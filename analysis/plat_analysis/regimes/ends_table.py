"""The table of what the treatment changes by the end of training: start and end of each quantity (`regimes.ends`), and
the paired difference of the ends, beside that of earlier runs.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from plat_analysis.regimes.ends import COLUMNS, QUANTITIES, RETURNED, End, ends_of, values_of
from plat_analysis.regimes.reference_ends import EndsReference
from plat_analysis.results.labels import label
from plat_analysis.results.runs import Results, RunView
from plat_analysis.statistics.families import starred
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds, Replicate, over_replicates

CAPTION = (
    "Means over seeds; the difference is {treatment} minus {baseline}, paired by seed. "
    "Starred: not zero by Student's t and by flips of signs, with the error over the table held at 5 % (Holm), from "
    "five seeds on; the intervals are the plain 95 % ones of single cells{about}, from three on."
)
MEASURED = (
    "Success and moves: of the first and the last evaluation, on the validation instances. Return, on which policies "
    "are trained: from the first evaluation to the mean of the last {returned}. Retrieval, H(Z|X) and reasonings that "
    "parse: of the first and the last probe of fresh reasonings, where there are probes. All else: on the batches of "
    "training, from the first measurement to the mean of the last {last}."
)


def differences_table(
    results: Results,
    conditions: Mapping[str, Mapping[Replicate, RunView]],
    baseline: str,
    treatment: str,
    scope: str,
    last: int,
    name: str,
    reference: EndsReference | None = None,
    builds: Builds = "random",
) -> Table:
    """Change from start to end in each condition, and the paired difference of the ends; with a reference, beside those
    of earlier runs."""
    untreated, treated = conditions.get(baseline, {}), conditions.get(treatment, {})
    estimates: dict[tuple[str, str], Estimate] = {}
    absent: dict[str, str] = {}
    for quantity in QUANTITIES:
        sides = [ends_of(results, runs, quantity, scope, last) for runs in (untreated, treated)]
        absent[quantity] = _absent([*untreated.items()], sides[0]) + _absent([*treated.items()], sides[1])
        values = values_of(results, untreated, treated, quantity, scope, last)
        for column, runs in zip(COLUMNS, ((untreated,), (treated,), (untreated, treated)), strict=True):
            estimates[quantity, column] = over_replicates(
                values[column],
                builds=builds,
                wanted=len(set().union(*runs)),
                run_ids=tuple(side[replicate].id for replicate in values[column] for side in runs),
                note=absent[quantity] if column == "difference" else "",
            )
    shown = _with_stars(estimates)
    return _table(shown, absent, baseline, treatment, last, name, reference)


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
    """The table of these estimates; `absent` says of each quantity which runs are left out of it."""
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
        caption=CAPTION.format(treatment=label(treatment), baseline=label(baseline), about=_about(estimates)),
        notes=[Note(MEASURED.format(last=last, returned=RETURNED))],
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


def _about(estimates: Mapping[tuple[str, str], Estimate]) -> str:
    """`, over seeds, about these 2 builds of the base model`; "" without an interval."""
    meant = dict.fromkeys(f", over {e.over}, about {e.about} of the base model" for e in estimates.values() if e.over)
    return " and".join(meant)


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
