"""Lay out a report by axes: those of a file without `report:`, and those that the command line added."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from plat.errors import SpecError
from plat.words.metric_names import SUCCESS, VAL_SUCCESS, own_metric
from plat_analysis.data.results import Results
from plat_analysis.facets import Facets, Layout
from plat_analysis.own_axes import added_axes, by_axes, varied_axes
from plat_analysis.quantities.metric import MOST_DIGITS

MOST_METRICS = 6  # on the page; the others are in the store
MOST_PRINTED = 2  # on the terminal, of runs without claims and headline metric
MOST_NAMED = 12  # of the metrics that are left out
SIGNIFICANT = 4  # digits of the largest value of a metric
ROUNDING = 1e-9  # a smaller spread, as a share of the values, is that of adding numbers in another order
# Learning rates, times, counters, speed: what loggers add by themselves.
HOUSEKEEPING = re.compile(
    r"(^|[/_.-])(lr|learning_rate|epoch|step|steps|iteration|iterations|sps|fps|time|seconds|elapsed|wall_time|runtime|"
    r"throughput|samples_per_second|steps_per_second|total_timesteps|time_elapsed|memory|mem)($|[/_.-])",
    re.IGNORECASE,
)


LINES = ("rows", "columns", "pair", "baseline")  # options of figures of curves


def entries_of(results: Results) -> list[dict[str, Any]]:
    """Return the report entries of an experiment: those of its file after the effects of the axes that were added.

    Without `report:`, these are the mean of every metric in each cell, its curves, and the effect of each axis, or []
    if no run logged a metric. An axis whose values have different seeds has no effect, because effects are paired.

    The key `only` of an entry says where it is shown: on the `page`, or `folded` on the page; else everywhere. One
    table of the metrics of claims is for the terminal: for one axis its effect, for several a grid of each metric.
    """
    experiment = results.experiment
    metrics, first = _metrics(results)
    if experiment.report:  # what was added is compared first
        return [*_effects(results, added_axes(experiment), metrics[:first]), *experiment.report]
    varied = varied_axes(experiment)
    entries = []
    for shown, only in ((metrics[:first], {}), (metrics[first:], {"only": "folded"})):
        effects = _effects(results, varied, shown) if shown else []
        if len(varied) != 1 or not effects:
            entries += [{**entry, **only} for entry in _grids(results, shown)]
            only = only or {"only": "page"}
            effects = [{**entry, **only} for entry in effects]
        curves = {"builder": "learning_curves", "metrics": shown, **by_axes(experiment, LINES, {})}
        entries += [*({**entry, **only} for entry in effects), *([{**curves, **only}] if shown else [])]
    return entries


def left_out(results: Results) -> str:
    """Return which logged metrics a report without `report:` leaves out; "" if it shows all."""
    metrics, _ = _metrics(results)
    logged = results.logged()
    others = [metric for metric in logged if metric not in (*metrics, *results.headlines)]
    if results.experiment.report or VAL_SUCCESS in logged or not others:
        return ""
    named = ", ".join(others[:MOST_NAMED]) + (", ..." if len(others) > MOST_NAMED else "")
    return f"Also logged, and shown when `report:` names them: {named}."


def _grids(results: Results, metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return a table for each metric: the last axis as columns, the others as rows; without axes, one for all."""
    varied = varied_axes(results.experiment)
    groups = [[metric] for metric in metrics] if varied else [list(metrics)] if metrics else []
    return [
        {
            "builder": "metric_table",
            "metrics": group,
            "title": f"{_name(results, group[0])} by {', '.join(varied)}" if varied else "Metrics",
            "percent": group == [SUCCESS],
            "digits": 1 if group == [SUCCESS] else {metric: _digits(results, metric) for metric in group},
            "rows": varied[:-1] or varied,
            "columns": varied[-1] if len(varied) > 1 else (),
            "name": "metrics" if group == metrics else f"metrics_{group[0]}",
        }
        for group in groups
    ]


def _metrics(results: Results) -> tuple[list[str], int]:
    """Return the metrics of the page, and how many of them, from the first on, are those of the terminal.

    First the rate and the metric of a script, then those of claims; without any, the first MOST_PRINTED of the
    alphabet. Metrics that only say how a script ran come last. Runs of plat's own trainers have no others.
    """
    logged = results.logged()
    headline = [SUCCESS] if any(len(results.curve(run.id, SUCCESS)[0]) for run in results.runs) else []
    own = [own_metric(run.run.config)[0] for run in results.runs]
    named = [metric for metric in (*own, *_claimed(results.experiment.claims)) if metric in logged]
    first = [*headline, *dict.fromkeys(metric for metric in named if metric not in results.headlines)]
    own = [] if headline and VAL_SUCCESS in results.headlines else logged
    others = [metric for metric in own if metric not in (*first, *results.headlines)]
    others = sorted(others, key=_is_housekeeping)[: max(0, MOST_METRICS - len(first))]
    return [*first, *others], len(first) or MOST_PRINTED


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
