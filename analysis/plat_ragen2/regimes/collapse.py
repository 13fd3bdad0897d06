"""Show the loss of input dependence and the treatment's effect on it: one figure, and two tables of its end.

Regimes are decided by the probes of fresh reasonings (`regimes.regime`), drawn in bold; measurements on training
batches are faint. `regimes.run_ends` defines start and end of a quantity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import log
from typing import Any, Literal

import numpy as np

from plat_analysis.artifact import (
    Cell,
    Column,
    Figure,
    Note,
    Row,
    Table,
    estimate_cell,
    interval,
    number,
    provenance,
    record,
    short_interval,
)
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.cell import Cell as ComparedCell
from plat_analysis.contrasts.cell import Contrast
from plat_analysis.contrasts.comparison import Compared
from plat_analysis.data.chance import beside, chance_of, valid_of
from plat_analysis.data.labels import label
from plat_analysis.data.results import Curve, Results
from plat_analysis.facets import Facets, Layout, Runs, two_conditions
from plat_analysis.figures import condition_curves as curves
from plat_analysis.figures.condition_curves import ConditionCurves, condition_curves
from plat_analysis.quantities.quantity import Measurement
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds
from plat_analysis.statistics.significance import starred
from plat_analysis.tables.peak_notes import seeds_cell
from plat_ragen2.regimes.collapse_figure import draw
from plat_ragen2.regimes.probe_tables import PROBED, entropy_curve
from plat_ragen2.regimes.regime import Thresholds
from plat_ragen2.regimes.regime_table import regime_table
from plat_ragen2.regimes.run_ends import (
    COLUMNS,
    QUANTITIES,
    RETURNED,
    VALIDATED,
    EndsReference,
    contrasts,
    ends_of,
    metric_of,
)


@takes(reads={"thresholds": Thresholds.read})
def build(
    results: Results,
    *,
    pair: str = "filter",
    baseline: Any = "none",
    treatment: Any = None,
    scope: Literal["first_turn", "trajectory"] = "first_turn",
    last: int = 3,
    thresholds: Mapping[str, float] | None = None,
    builds: Builds = "random",
    name: str = "collapse",
) -> list[Figure | Table]:
    """The figure, the table of regimes and the table of differences.

    pair        the axis whose values are compared: `baseline` with `treatment` (default: its first other value)
    scope       of the mutual-information proxies in the figure and in the differences
    last        where a quantity is measured on the batches of training, its end is the mean of this many last values
    thresholds  of the regimes, by name (`regimes.regime`)
    builds      the differences are about these builds of the base model (fixed), or about such builds (random)
    """
    facets = Facets(results, Layout.of(conditions=pair))
    baseline, treatment = two_conditions(facets, baseline, treatment)
    groups = {
        c: facets.runs(condition=c) for c in dict.fromkeys((baseline, *facets.conditions)) if c in facets.conditions
    }
    limits = Thresholds.read(thresholds)
    compared = Compared(facets, baseline, treatment, builds)
    metrics = {*(metric_of(quantity, scope) for quantity in QUANTITIES), *PROBED.values()}
    reference = EndsReference(results.experiment, compared.cells["", ""], metrics)
    return [
        _figure(results, groups, baseline, scope, limits, name),
        regime_table(results, groups, limits, name + "_regimes"),
        differences_table(compared, scope, last, name + "_differences", reference),
    ]


PROBES_DRAWN = (
    "Points: fresh reasonings of each evaluated checkpoint; the regimes are judged on these. Faint: smaller samples "
    "from the batches of training."
)
BATCHES_DRAWN = "Measured on the batches of training, so the end may differ from the table of regimes."


def _figure(
    results: Results, groups: Mapping[str, Runs], baseline: str, scope: str, limits: Thresholds, name: str
) -> Figure:
    batches = _panels(results, groups, {quantity: metric_of(quantity, scope) for quantity in QUANTITIES})
    probed = {key: lines for key, lines in _panels(results, groups, PROBED).items() if lines.lines}
    panels = batches | probed
    faint = {key: batches[key] for key in probed}
    retrievals = (PROBED["retrieval"], metric_of("retrieval", scope))
    drawn = retrievals[0] if probed else retrievals[1]
    chances = [_chance(results, name) for name in dict.fromkeys((drawn, retrievals[1]))]
    vocabulary = next((v for run in results.runs if (v := run.number_tag("plat.summary.vocabulary"))), None)
    figure = Figure(
        name=name,
        title="Input dependence over training",
        draw=partial(
            draw, panels, faint, list(groups), baseline, chances, log(vocabulary) if vocabulary else None, limits
        ),
        caption=(
            "Retrieval accuracy: how often a reasoning is likeliest under its own prompt. It falls to chance when "
            "reasoning no longer depends on the input; entropy does not show that. "
            + (PROBES_DRAWN if probed else BATCHES_DRAWN)
            + " Bold: mean over seeds; thin: single "
            "seeds. Band: the 95 % interval over seeds if there are at least three; with one seed, the 95 % interval "
            "of success over the validation instances. "
            "×: the run ended early. ▼: its success fell after its peak."
            + "".join(f" {text}" for text in beside(results, results.runs, retrievals))
        ),
    )
    for source, curves_drawn in (("probe", probed), ("training", batches)):
        for (quantity, condition), lines in curves_drawn.items():
            measured = "validation" if quantity in VALIDATED else source
            figure.points += curves.points(lines, quantity=quantity, condition=condition, measured=measured)
            figure.estimates += curves.estimates(lines, quantity=quantity, condition=condition, measured=measured)
    return figure


def _chance(results: Results, accuracy: str) -> Curve | None:
    """Return the chance level of a retrieval accuracy over training, that of the first run that logged it."""
    curves = (results.curve(run.id, str(chance_of(accuracy))) for run in results.runs)
    return next((curve for curve in curves if len(curve[0])), None)


def _panels(
    results: Results, groups: Mapping[str, Runs], metrics: Mapping[str, str]
) -> dict[tuple[str, str], ConditionCurves]:
    return {
        (quantity, condition): condition_curves(
            results,
            list(runs.values()),
            metric,
            partial(entropy_curve, results) if metric == PROBED["entropy"] else None,
        )
        for quantity, metric in metrics.items()
        for condition, runs in groups.items()
    }


CAPTION = (
    "Means over seeds; the difference is {treatment} minus {baseline}, paired by seed. "
    "A star marks a value that differs from zero in two tests, Student's t and sign flips. The error rate over the "
    "table is controlled at 5 % (Holm). A star requires at least five seeds. The intervals are 95 % intervals of "
    "single cells{about}, without this correction; they require at least three seeds."
)
MEASURED = (
    "Success and moves are those of the first and the last evaluation, on the validation instances. Return, on which "
    "policies are trained, starts at the first evaluation and ends at the mean of the last {returned}. Retrieval, "
    "H(Z|X) and reasonings that parse are those of the first and the last probe of fresh reasonings, where there are "
    "probes. All other quantities are measured on the batches of training: they start at the first measurement and "
    "end at the mean of the last {last}."
)


def differences_table(
    compared: Compared, scope: str, last: int, name: str, reference: EndsReference | None = None
) -> Table:
    """Return the change from start to end in each condition, and the paired difference of the ends.

    scope      of the mutual-information proxies
    last       where a quantity is measured on the batches of training, its end is the mean of this many last values
    name       the name of the table; the names of its values begin with it
    reference  adds lines on earlier runs
    """
    estimates: dict[tuple[str, str], Estimate] = {}
    absent: dict[str, str] = {}
    cell, baseline, treatment = compared.cells["", ""], compared.baseline, compared.treatment
    asked = {quantity: contrasts(quantity, scope, last, baseline, treatment) for quantity in QUANTITIES}
    for quantity, columns in asked.items():
        end = columns["difference"].of.quantity
        left_out = [
            sorted(f"{side.runs[r].run.name}: {why}; " for r, why in side.absent(end).items())
            for side in cell.sides.values()
        ]
        absent[quantity] = "".join(text for texts in left_out for text in texts)
        for column, contrast in columns.items():
            note = absent[quantity] if column == "difference" else ""
            estimates[quantity, column] = replace(cell.estimate(contrast), note=note, run_ids=_pairs(cell, contrast))
    # All cells are one family (Holm), but no spread is shared, because quantities have different units.
    estimates = starred([{key: estimate} for key, estimate in estimates.items()])
    meant = dict.fromkeys(f", over {e.over}, about {e.about} of the base model" for e in estimates.values() if e.over)
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
        caption=CAPTION.format(treatment=label(treatment), baseline=label(baseline), about=" and".join(meant)),
        notes=[Note(MEASURED.format(last=last, returned=RETURNED))],
    )
    for quantity, (_, title, digits) in QUANTITIES.items():
        values, bounds = [Cell(title, tone="strong")], [Cell("95 %", tone="dim")]
        for column in COLUMNS:
            estimate = estimates[quantity, column]
            values.append(estimate_cell(estimate, digits, signed=True))
            bounds.append(_bounds_cell(estimate, digits))
            table.records.append(record(estimate, quantity=quantity, what=column))
            if estimate.value is not None:
                table.values[f"{name}/{quantity}/{column}"] = estimate.value
        gap = estimates[quantity, "difference"]
        table.rows += [Row((*values, seeds_cell(gap)), rule=True), Row((*bounds, Cell()))]
        if reference is not None:
            own = {column: estimates[quantity, column] for column in COLUMNS}
            table.rows += reference.lines(asked[quantity], own, digits)
    table.notes += [Note(text) for text in [*_left_out(absent), *_beside(compared, scope, last)]]
    if reference is not None:
        reference.explain(table)
    return table


def _beside(compared: Compared, scope: str, last: int) -> list[str]:
    """Return a sentence on the chance level of retrieval from start to end, and one on its valid reasonings.

    They are means over the runs of a condition, measured where the table's retrieval is. What no run logged has none.
    """
    results, sides = compared.facets.results, compared.cells["", ""].sides
    sentences = []
    for words, other, digits in (("chance", chance_of, 3), ("valid reasonings", valid_of, 1)):
        parts = []
        for condition, side in sides.items():
            ends = [ends_of(results, run, "retrieval", scope, last, other) for run in side.runs.values()]
            means = [
                np.mean([each.value for each in of if isinstance(each, Measurement)])
                for of in zip(*ends, strict=True)
                if any(isinstance(each, Measurement) for each in of)
            ]
            if len(means) == 2:
                parts.append(f"{label(condition)} {' → '.join(number(float(mean), digits) for mean in means)}")
        sentences += [f"Retrieval accuracy, {words} from start to end: {', '.join(parts)}."] if parts else []
    return sentences


def _pairs(cell: ComparedCell, contrast: Contrast) -> tuple[str, ...]:
    """Return the run ids of a contrast, pair by pair."""
    conditions = dict.fromkeys(term.condition for term in contrast.terms)
    return tuple(cell.sides[condition].runs[r].id for r in cell.pairs(contrast) for condition in conditions)


def _bounds_cell(estimate: Estimate, digits: int) -> Cell:
    bounds = interval(estimate, digits, signed=True)
    if not bounds:
        bounds = {0: "missing", 1: "one seed"}.get(estimate.seeds, f"{estimate.seeds} seeds")
    narrow = short_interval(estimate, signed=True, digits=digits) or bounds
    return Cell(bounds, shorter=(narrow,), tone="dim", title=provenance(estimate))


def _left_out(absent: Mapping[str, str]) -> list[str]:
    """Return one sentence for each reason, with its quantities unless it concerns all."""
    quantities: dict[str, list[str]] = {}
    for quantity, reasons in absent.items():
        if reasons:
            quantities.setdefault(reasons.removesuffix("; "), []).append(QUANTITIES[quantity][1])
    everything = len(QUANTITIES)
    about = {r: "" if len(titles) == everything else f" ({', '.join(titles)})" for r, titles in quantities.items()}
    return [f"Left out{about[reasons]}: {reasons}." for reasons in quantities]
