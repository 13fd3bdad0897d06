"""Lay out a report by axes: those of a file without `report:`, and those that the command line added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plat.errors import SpecError
from plat.words.metric_names import SUCCESS, VAL_SUCCESS
from plat_analysis.data.results import Results
from plat_analysis.facets import Facets, Layout
from plat_analysis.own_axes import added_axes, by_axes, varied_axes

MOST_METRICS = 6  # shown; the others are in the store


def entries_of(results: Results) -> list[dict[str, Any]]:
    """Return the report entries of an experiment: those of its file after the effects of the axes that were added.

    Without `report:`, these are the mean of every metric in each cell, its curves, and the effect of each axis, or []
    if no run logged a metric. Runs with a success have it as their only metric. An axis whose values have different
    seeds has no effect, because effects are paired.
    """
    experiment = results.experiment
    metrics = _metrics(results)
    if experiment.report:  # what was added is compared first
        return [*_effects(results, added_axes(experiment), metrics), *experiment.report]
    if not metrics:
        return []
    varied = varied_axes(experiment)
    shown = _name(results, metrics[0]) if len(metrics) == 1 else "Metrics"
    title = f"{shown} by {', '.join(varied)}" if varied else shown
    style = {"percent": True} if metrics == [SUCCESS] else {"percent": False, "digits": 3}
    cells = by_axes(experiment, ("rows", "columns"), {})
    lines = by_axes(experiment, ("rows", "columns", "pair", "baseline"), {})
    table = {"builder": "metric_table", "metrics": metrics, "title": title, **style, **cells}
    curves = {"builder": "learning_curves", "metrics": metrics, **lines}
    return [table, curves, *_effects(results, varied, metrics)]


def _metrics(results: Results) -> list[str]:
    """Return the metrics that are shown: the success of runs that have one, else the first that runs have logged."""
    if any(len(results.curve(run.id, run.run.headline)[0]) for run in results.runs):
        return [SUCCESS]
    return results.logged()[:MOST_METRICS]


def _name(results: Results, metric: str) -> str:
    """Return a metric as its runs call it: `accuracy` for the success of a script that logs it by this name."""
    name = results.metric(metric)
    return metric if name == VAL_SUCCESS else name


def _effects(results: Results, axes: Sequence[str], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return a table for each of the axes: the level at each of its values, and the change from the first one."""
    varied = varied_axes(results.experiment)
    measures = {_name(results, metric): "final" if metric == SUCCESS else {"metric": metric} for metric in metrics}
    return [
        {
            "builder": "measures_table",
            "conditions": axis,
            "rows": [other for other in varied if other != axis] or None,
            "measures": measures,
            "title": f"The effect of {axis}",
            "name": f"effect_of_{axis}",
        }
        for axis in axes
        if _is_paired(results, axis, [other for other in varied if other != axis])
    ]


def _is_paired(results: Results, axis: str, others: list[str]) -> bool:
    """Return True if the first value of an axis and each other one have the same seeds, wherever both have runs."""
    try:
        facets = Facets(results, Layout.of(rows=others, conditions=axis))
        for condition in facets.conditions[1:]:
            facets.check_pairs(facets.conditions[0], condition)
    except SpecError:
        return False
    return True
