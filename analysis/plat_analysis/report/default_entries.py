"""Lay out a report by the axes of an experiment file that has no `report:`."""

from __future__ import annotations

from typing import Any

from plat_analysis.data.results import Results

REPLICATES = ("seed", "model.base.seed")  # axes whose values are repetitions, not conditions
MOST_METRICS = 6  # shown; the others are in the store


def default_entries(results: Results) -> list[dict[str, Any]]:
    """Return report entries: the mean of every metric in each cell, its curves, and the effect of each axis.

    The lines of a figure are the values of the first axis with several values, its columns those of the second, and its
    rows those of all others together. Returns [] if no run logged a metric, and if runs have a success: their list has
    it.
    """
    if any(len(results.curve(run.id, run.run.headline)[0]) for run in results.runs):
        return []
    metrics = results.logged()[:MOST_METRICS]
    if not metrics:
        return []
    axes = {name: values for name, values in results.experiment.axes.items() if len(values) > 1}
    varied = [name for name in axes if name not in REPLICATES]
    table = {
        "builder": "metric_table",
        "rows": varied or None,
        "columns": None,
        "metrics": metrics,
        "percent": False,
        "digits": 3,
    }
    table["title"] = f"Metrics by {', '.join(varied)}" if varied else "Metrics"
    if not varied:
        return [table, {"builder": "learning_curves", "columns": None, "pair": None, "metrics": metrics}]
    first, *others = varied
    curves = {
        "builder": "learning_curves",
        "rows": others[1:] or None,
        "columns": others[0] if others else None,
        "pair": first,
        "baseline": axes[first][0],
        "metrics": metrics,
    }
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
    ]
    return [table, curves, *effects]
