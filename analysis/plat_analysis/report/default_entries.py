"""Lay out a report by axes: those of a file without `report:`, and those that the command line added."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from plat.errors import SpecError
from plat.words.metric_names import SUCCESS, VAL_SUCCESS
from plat_analysis.data.results import Results
from plat_analysis.facets import Facets, Layout
from plat_analysis.own_axes import added_axes, by_axes, varied_axes
from plat_analysis.quantities.metric import MOST_DIGITS

MOST_METRICS = 6  # shown; the others are in the store
SIGNIFICANT = 4  # digits of the largest value of a metric
ROUNDING = 1e-9  # a smaller spread, as a share of the values, is that of adding numbers in another order
# Learning rates, times, counters, speed: what loggers add by themselves.
HOUSEKEEPING = re.compile(
    r"(^|[/_.-])(lr|learning_rate|epoch|step|steps|iteration|iterations|sps|fps|time|seconds|elapsed|wall_time|runtime|"
    r"throughput|samples_per_second|steps_per_second|total_timesteps|time_elapsed|memory|mem)($|[/_.-])",
    re.IGNORECASE,
)


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
    style: dict[str, Any] = {"percent": True}
    if metrics != [SUCCESS]:
        style = {"percent": False, "digits": {metric: _digits(results, metric) for metric in metrics}}
    cells = by_axes(experiment, ("rows", "columns"), {})
    lines = by_axes(experiment, ("rows", "columns", "pair", "baseline"), {})
    table = {"builder": "metric_table", "metrics": metrics, "title": title, **style, **cells}
    if metrics != [SUCCESS] and (others := [metric for metric in results.logged() if metric not in metrics]):
        table["others"] = others
    curves = {"builder": "learning_curves", "metrics": metrics, **lines}
    return [table, curves, *_effects(results, varied, metrics)]


def _metrics(results: Results) -> list[str]:
    """Return the metrics that are shown: the success of runs that have one, else those of claims and others.

    Metrics of claims come first, and those that only say how a script ran come last. At most MOST_METRICS are shown, or
    as many as claims name.
    """
    if any(len(results.curve(run.id, run.run.headline)[0]) for run in results.runs):
        return [SUCCESS]
    logged = results.logged()
    claimed = [metric for metric in _claimed(results.experiment.claims) if metric in logged]
    others = sorted((metric for metric in logged if metric not in claimed), key=_is_housekeeping)
    return [*claimed, *others][: max(MOST_METRICS, len(claimed))]


def _claimed(claims: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the metrics that claims measure, each once."""
    measures = (claim.get(key) for claim in claims for key in ("measure", "measures", "metric"))
    found = (_named(measure) for measure in measures if measure is not None)
    return list(dict.fromkeys(name for names in found for name in names))


def _named(measure: Any) -> list[str]:
    if isinstance(measure, str):
        return [measure]
    if isinstance(measure, Mapping):
        inner = [measure["metric"]] if "metric" in measure else list(measure.values())
        return [name for one in inner for name in _named(one)]
    return [name for one in measure for name in _named(one)] if isinstance(measure, list) else []


def _is_housekeeping(metric: str) -> bool:
    """Return True for a metric that says how a script ran, not how well it did."""
    return HOUSEKEEPING.search(metric) is not None


def _digits(results: Results, metric: str) -> int:
    """Return decimals that show SIGNIFICANT digits of the last values of a metric, and two of their spread."""
    curves = (results.curve(run.id, metric)[1] for run in results.runs)
    last = [float(values[-1]) for values in curves if len(values) and math.isfinite(values[-1])]
    largest, spread = max(map(abs, last), default=0.0), max(last, default=0.0) - min(last, default=0.0)
    sizes = {SIGNIFICANT: largest, 2: spread if spread > ROUNDING * largest else 0.0}
    needed = [digits - 1 - math.floor(math.log10(size)) for digits, size in sizes.items() if size > 0]
    return min(MOST_DIGITS, max([0, *needed])) if needed else SIGNIFICANT - 1


def _name(results: Results, metric: str) -> str:
    """Return a metric as its runs call it: `accuracy` for the success of a script that logs it by this name."""
    name = results.metric(metric)
    return metric if name == VAL_SUCCESS else name


def _effects(results: Results, axes: Sequence[str], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return a table for each of the axes: the level at each of its values, and the change from the first one."""
    varied = varied_axes(results.experiment)
    measures = {
        _name(results, metric): "final" if metric == SUCCESS else {"metric": metric, "digits": _digits(results, metric)}
        for metric in metrics
    }
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
