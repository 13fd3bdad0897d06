"""Draw several metrics over training side by side, a line for each condition (Figures 5, 7, 10 and 14)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from plat.errors import SpecError
from plat_analysis.artifact import Figure
from plat_analysis.builder_options import takes
from plat_analysis.data.labels import label
from plat_analysis.data.results import Results, spell
from plat_analysis.facets import AxisNames, Facets, Layout, rows_or
from plat_analysis.figures import condition_curves as curves
from plat_analysis.figures import style
from plat_analysis.figures.condition_curves import ConditionCurves, condition_curves
from plat_analysis.figures.learning_curves import caption, finish_panel
from plat_analysis.shown_text import shortened

MOST_BANDS = 4  # more bands than this hide each other
LONGEST_NAME = 26  # characters in a figure; the whole name is in the CSV and the tooltips
Panels = dict[tuple[str, str, str], ConditionCurves]  # row, name of the metric, condition


def _beforehand(
    results: Results, *, metrics: Any, conditions: AxisNames = "filter", rows: AxisNames = None, **_: Any
) -> None:
    """Raise SpecError where the metrics are not a mapping of names, or two runs have one position."""
    if not isinstance(metrics, Mapping) or not metrics or not all(isinstance(key, str) for key in metrics.values()):
        raise SpecError("metrics: name each panel and its metric", fix="write metrics: {Success: success}")
    Facets(results, Layout.of(rows_or(rows, results.experiment, None), None, conditions))


@takes(before=_beforehand)
def build(
    results: Results,
    *,
    metrics: Mapping[str, str],
    conditions: AxisNames = "filter",
    rows: AxisNames = None,
    baseline: Any = "none",
    title: str = "",
    name: str = "metric_panels",
) -> list[Figure]:
    """A panel for each metric in each row, with the mean of every condition, its 95 % band and its runs.

    metrics     printed name -> metric; `success` is the headline metric of each run's trainer
    conditions  the axis whose values are the lines; `baseline` is the grey one
    rows        axes of the panel rows (default: `variant` where the experiment has it, else one row)
    """
    facets = Facets(results, Layout.of(rows_or(rows, results.experiment, None), None, conditions))
    panels: Panels = {
        (place.row, shown, place.condition): condition_curves(results, list(runs.values()), metric)
        for shown, metric in metrics.items()
        for place, runs in facets.places.items()
    }
    figure = Figure(
        name=name,
        title=title or results.heading,
        draw=partial(_draw, panels, facets, list(metrics), spell(baseline)),
        caption=" ".join(
            [caption("", panels.values(), len(facets.conditions) <= MOST_BANDS), *results.unlogged(metrics.values())]
        ),
    )
    for index, ((row, shown, condition), lines) in enumerate(panels.items()):
        figure.points += curves.points(
            lines, row=row, condition=condition, metric=results.metric(metrics[shown]), shown=shown
        )
        labels = facets.layout.labels(row, "", condition)
        figure.estimates += curves.estimates(lines, **labels, metric=results.metric(metrics[shown]))
        place = ", ".join(filter(None, [row, shown, label(condition)]))
        figure.titles[f"line-{index}"] = f"{place} · runs {' '.join(run.id for run in lines.runs)}"
    return [figure]


def _draw(panels: Panels, facets: Facets, shown: list[str], baseline: str) -> style.Canvas:
    rows, conditions = facets.rows, facets.conditions
    looks = style.looks(conditions, baseline)
    height = 1.0 + 1.45 * len(rows)
    figure = style.canvas(max(4.2, 0.5 + 2.25 * len(shown)), height)
    axes = figure.subplots(len(rows), len(shown), sharex=True, sharey="col", squeeze=False)
    figure.subplots_adjust(
        left=0.75 / figure.get_figwidth(), right=0.99, top=1 - 0.62 / height, bottom=0.42 / height,
        wspace=0.28, hspace=0.22,
    )  # fmt: skip
    entries = [(shortened(label(condition), LONGEST_NAME), looks[condition]) for condition in conditions]
    style.key_line(figure, entries, 1 - 0.14 / height)
    for index, ((row, metric, condition), lines) in enumerate(panels.items()):
        axis = axes[rows.index(row)][shown.index(metric)]
        curves.draw(axis, lines, looks[condition], f"line-{index}", None, band=len(conditions) <= MOST_BANDS)
    for r, row in enumerate(rows):
        for c, metric in enumerate(shown):
            axis = axes[r][c]
            finish_panel(axis)
            if r == 0:
                axis.set_title(shortened(metric, LONGEST_NAME))
        if row:
            axes[r][0].set_ylabel(shortened(label(row), LONGEST_NAME), color=style.INK)
    axes[-1][len(shown) // 2].set_xlabel("training iteration")
    return figure
