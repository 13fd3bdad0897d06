"""Show the loss of input dependence and the treatment's effect on it: one figure, and two tables of its end.

Regimes are decided by the probes of fresh reasonings (`regimes.regime`), drawn in bold; measurements on training
batches are faint. `regimes.run_ends` defines start and end of a quantity.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import log
from typing import Any, Literal

from plat_analysis.artifact import Figure, Table
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.comparison import Compared
from plat_analysis.data.results import Results
from plat_analysis.facets import Facets, Layout, Runs, two_conditions
from plat_analysis.figures import condition_curves as curves
from plat_analysis.figures.condition_curves import ConditionCurves, condition_curves
from plat_analysis.regimes.collapse_figure import draw
from plat_analysis.regimes.ends_table import differences_table
from plat_analysis.regimes.probe_tables import PROBED, entropy_curve
from plat_analysis.regimes.reference_ends import EndsReference
from plat_analysis.regimes.regime import Thresholds
from plat_analysis.regimes.regime_table import regime_table
from plat_analysis.regimes.run_ends import QUANTITIES, VALIDATED, metric_of
from plat_analysis.statistics.replicates import Builds


@takes()
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
    chances = (results.curve(run.id, f"mi/{scope}/retrieval_chance")[1] for run in results.runs)
    chance = next((float(values[-1]) for values in chances if len(values)), None)
    vocabulary = next((v for run in results.runs if (v := run.number_tag("plat.summary.vocabulary"))), None)
    figure = Figure(
        name=name,
        title="Input dependence over training",
        draw=partial(
            draw, panels, faint, list(groups), baseline, chance, log(vocabulary) if vocabulary else None, limits
        ),
        caption=(
            "Retrieval accuracy: how often a reasoning is likeliest under its own prompt. It falls to chance when "
            "reasoning no longer depends on the input; entropy does not show that. "
            + (PROBES_DRAWN if probed else BATCHES_DRAWN)
            + " Bold: mean over seeds; thin: single "
            "seeds. Band: the 95 % interval over seeds if there are at least three; with one seed, the 95 % interval "
            "of success over the validation instances. "
            "×: the run ended early. ▼: its success fell after its peak."
        ),
    )
    for source, curves_drawn in (("probe", probed), ("training", batches)):
        for (quantity, condition), lines in curves_drawn.items():
            measured = "validation" if quantity in VALIDATED else source
            figure.points += curves.points(lines, quantity=quantity, condition=condition, measured=measured)
    return figure


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
