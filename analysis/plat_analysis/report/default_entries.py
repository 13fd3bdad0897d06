"""Lay out a report by the axes of an experiment file that has no `report:`."""

from __future__ import annotations

from typing import Any

from plat.errors import SpecError
from plat_analysis.data.results import Results
from plat_analysis.facets import Facets, Layout
from plat_analysis.own_axes import varied_axes

MOST_METRICS = 6  # shown; the others are in the store


def default_entries(results: Results) -> list[dict[str, Any]]:
    """Return report entries: the mean of every metric in each cell, its curves, and the effect of each axis.

    Returns [] if no run logged a metric, and if runs have a success, which their list shows. Axes are laid out as
    `plat_analysis.own_axes` says. An axis whose values have different seeds has no effect, because effects are paired.
    """
    if any(len(results.curve(run.id, run.run.headline)[0]) for run in results.runs):
        return []
    metrics = results.logged()[:MOST_METRICS]
    if not metrics:
        return []
    varied = varied_axes(results.experiment)
    shown = metrics[0] if len(metrics) == 1 else "Metrics"
    title = f"{shown} by {', '.join(varied)}" if varied else shown
    table = {"builder": "metric_table", "metrics": metrics, "percent": False, "digits": 3, "title": title}
    curves = {"builder": "learning_curves", "metrics": metrics}
    measures = {metric: {"metric": metric} for metric in metrics}
    effects = [
        {
            "builder": "measures_table",
            "conditions": axis,
            "rows": [other for other in varied if other != axis] or None,
            "measures": measures,
            "title": f"The effect of {axis}",
            "name": f"effect_of_{axis}",
        }
        for axis in varied
        if _is_paired(results, axis, [other for other in varied if other != axis])
    ]
    return [table, curves, *effects]


def _is_paired(results: Results, axis: str, others: list[str]) -> bool:
    """Return True if the first value of an axis and each other one have the same seeds, wherever both have runs."""
    try:
        facets = Facets(results, Layout.of(rows=others, conditions=axis))
        for condition in facets.conditions[1:]:
            facets.check_pairs(facets.conditions[0], condition)
    except SpecError:
        return False
    return True
