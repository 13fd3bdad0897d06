"""Lay out a report by axes: those of a file without `report:`, and those that the command line added."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from plat.errors import SpecError
from plat.spec.expansion.experiment import claimed
from plat.words.metric_names import SUCCESS, VAL_SUCCESS, own_metric
from plat_analysis.builder_options import added_axes, by_axes, varied_axes
from plat_analysis.data.results import Results
from plat_analysis.facets import Facets, Layout
from plat_analysis.quantities.metric import end_decimals

MOST_CURVES = 6  # of metrics that no claim is about
MOST_PRINTED = 2  # on the terminal, of runs without claims and headline metric
# Learning rates, times, counters, speed: what loggers add by themselves.
HOUSEKEEPING = re.compile(
    r"(^|[/_.-])(lr|learning_rate|epoch|step|steps|iteration|iterations|sps|fps|time|seconds|elapsed|wall_time|runtime|"
    r"throughput|samples_per_second|steps_per_second|total_timesteps|time_elapsed|memory|mem)($|[/_.-])",
    re.IGNORECASE,
)


def entries_of(results: Results) -> list[dict[str, Any]]:
    """Return the report entries of an experiment: those of its file after the effects of the axes that were added.

    Without `report:`, these are the effect of an only axis, or for several a grid of each metric, then curves and
    effects; then a table of all other metrics. An axis whose values have different seeds has no effect, because effects
    are paired. The key `only` of an entry says where it is shown: on the `page`, or `folded` there; else everywhere.
    """
    experiment = results.experiment
    metrics, others = _metrics(results)
    if experiment.report:  # what was added is compared first
        return [*_effects(results, added_axes(experiment), metrics), *experiment.report]
    if not metrics:
        return []
    varied = varied_axes(experiment)
    effects = _effects(results, varied, metrics)
    cells = {"rows": varied[:-1] or varied, "columns": varied[-1:] if len(varied) > 1 else ()}
    if len(varied) != 1 or not effects:
        groups = [[metric] for metric in metrics] if varied else [metrics]
        effects = [
            *(_table(results, group, **cells) for group in groups),
            *({**one, "only": "page"} for one in effects),
        ]
    curves = {"builder": "learning_curves", **by_axes(experiment, ("rows", "columns", "pair", "baseline"), {})}
    entries = [*effects, {**curves, "metrics": metrics}]
    if others:
        entries.append({**_table(results, others, rows=varied, columns=()), "title": "Other metrics", "only": "folded"})
        entries.append({**curves, "metrics": others[:MOST_CURVES], "only": "folded"})
    return entries


def _table(results: Results, metrics: Sequence[str], **cells: Any) -> dict[str, Any]:
    """Return the table of the means of metrics in these rows and columns; the success of runs is in percent."""
    rate = metrics == [SUCCESS]
    title = " by ".join(filter(None, [_name(results, metrics[0]), ", ".join(varied_axes(results.experiment))]))
    digits = 1 if rate else {metric: end_decimals(results, metric) for metric in metrics}
    return {"builder": "metric_table", "metrics": metrics, "title": title, "percent": rate, "digits": digits, **cells}


def _metrics(results: Results) -> tuple[list[str], list[str]]:
    """Return the metrics that a report is about, and the others that runs log, which say how a script ran last.

    The former are the rate and the metric of a script and those of claims; without any, the first MOST_PRINTED. Runs
    of plat's own trainers have no others.
    """
    logged = results.logged()
    headline = [SUCCESS] if any(len(results.curve(run.id, SUCCESS)[0]) for run in results.runs) else []
    own = [own_metric(run.run.config)[0] for run in results.runs]
    named = [metric for metric in (*own, *claimed(results.experiment.claims)) if metric in logged]
    first = [*headline, *dict.fromkeys(metric for metric in named if metric not in results.headlines)]
    others = sorted((name for name in logged if name not in (*first, *results.headlines)), key=_is_housekeeping)
    if headline and VAL_SUCCESS in results.headlines:
        return first, []
    return (first, others) if first else (others[:MOST_PRINTED], others[MOST_PRINTED:])


def _is_housekeeping(metric: str) -> bool:
    """Return True for a metric that says how a script ran, not how well it did."""
    return HOUSEKEEPING.search(metric) is not None


def _name(results: Results, metric: str) -> str:
    """Return a metric as its runs call it: `accuracy` for the success of a script that logs it by this name."""
    name = results.metric(metric)
    return metric if name == VAL_SUCCESS else name


def _effects(results: Results, axes: Sequence[str], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return a table for each of the axes: the level at each of its values, and the change from the first one."""
    varied = varied_axes(results.experiment)
    measures = {
        _name(results, one): "final" if one == SUCCESS else {"metric": one, "digits": end_decimals(results, one)}
        for one in metrics
    }
    on = ", ".join(measures) if len(measures) <= MOST_PRINTED else f"{len(measures)} metrics"
    return [
        {
            "builder": "measures_table",
            "conditions": axis,
            "rows": [other for other in varied if other != axis] or None,
            "measures": measures,
            "title": f"The effect of {axis} on {on}",
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
