"""Report a metric in the runs of a condition: its mean, course and extremes, and its difference from other conditions.

Conditions with `|` between them are averaged within each build and seed: `cost=a|cost=b`. Differences are paired by
build and seed. Intervals are Student's t, 95 %, about these builds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from plat.errors import SpecError
from plat_analysis.artifact import interval, number
from plat_analysis.data.results import Results, RunView
from plat_analysis.report.report import Report
from plat_analysis.statistics.replicates import Replicate, over_replicates
from tools.documents.conditions import check_count, condition, options, replicates, whole

MEAN = {"last": "1", "digits": "2", "times": "1"}
DIFFERENCE = {"last": "1", "digits": "3", "show": "value"}
RISE = {"from": "", "last": "1", "digits": "2", "show": "value", "by": "0"}
BEYOND = {"above": "", "below": "", "last": "", "ever": ""}
ALL = "all"  # instead of a number of measurements


def mean(report: Report, words: Sequence[str]) -> str:
    """Return the mean of a metric over the runs of a condition, at each run's last measurement.

    `last=N`: mean of the last N; `last=all`: of all; `last=0`: the first; `times=100`: in percent.
    """
    check_count(words[:2], 2, "it names no metric and condition", "mean METRIC CONDITION [last=N]")
    given = options(words[2:], MEAN)
    mean_value = np.mean(list(_values(report.results, words[0], words[1], given["last"]).values()))
    return number(whole(given, "times") * float(mean_value), whole(given, "digits"))


def difference(report: Report, words: Sequence[str]) -> str:
    """Return a metric in the first condition minus in the second, with its interval: `+0.020 [+0.008, +0.032]`.

    `show=positive` returns in how many pairs it is above 0: `8 of 10`. SpecError if the runs are no pairs.
    """
    check_count(words[:3], 3, "it names no metric and two conditions", "difference METRIC CONDITION CONDITION [last=N]")
    given = options(words[3:], DIFFERENCE)
    first, second = (_values(report.results, words[0], text, given["last"]) for text in words[1:3])
    if first.keys() != second.keys():
        raise SpecError("the conditions have other builds or seeds", fix="compare conditions whose runs are pairs")
    changes = {replicate: first[replicate] - second[replicate] for replicate in first}
    if _shown(given, "difference", "positive"):
        return f"{sum(change > 0 for change in changes.values())} of {len(changes)}"
    return _with_interval(changes, whole(given, "digits"))


def rise(report: Report, words: Sequence[str]) -> str:
    """Return a metric's last measurement minus its first, the mean over runs with its interval. `last=N` as in `mean`.

    `from=METRIC` takes the start from another metric. `show=fallen` and `show=risen` count the runs that did so, by
    more than a share `by=.4` of the start: `4 of 15`.
    """
    check_count(words[:2], 2, "it names no metric and condition", "rise METRIC CONDITION [last=N]")
    given, results = options(words[2:], RISE), report.results
    runs = replicates(results, words[1])
    starts = {replicate: _value(results, run, given["from"] or words[0], "0") for replicate, run in runs.items()}
    changes = {
        replicate: _value(results, run, words[0], given["last"]) - starts[replicate] for replicate, run in runs.items()
    }
    if not _shown(given, "rise", "risen", "fallen"):
        return _with_interval(changes, whole(given, "digits"))
    sign, share = (1 if given["show"] == "risen" else -1), _limit("by", given["by"])
    moved = sum(sign * changes[replicate] > share * starts[replicate] for replicate in changes)
    return f"{moved} of {len(changes)}"


def beyond(report: Report, words: Sequence[str]) -> str:
    """Return the share of a metric's measurements above (`above=1`) or below a limit: `79 %`.

    `last=N` counts instead the runs whose last N have a mean beyond it (`3 of 5`), `ever=yes` those with any value
    beyond it. Raises SpecError unless there is one limit.
    """
    check_count(words[:3], 3, "it names no metric, condition and limit", "beyond METRIC CONDITION above=1")
    given, runs = options(words[2:], BEYOND), condition(report.results, words[1])
    if bool(given["above"]) == bool(given["below"]):
        raise SpecError("it takes one limit", fix="write above=LIMIT or below=LIMIT")
    sign, name = (1, "above") if given["above"] else (-1, "below")
    limit = sign * _limit(name, given[name])
    ends = [_value(report.results, run, words[0], given["last"] or "1") for run in runs]
    if given["last"]:
        return f"{sum(sign * end > limit for end in ends)} of {len(ends)}"
    measured = [sign * report.results.curve(run.id, words[0])[1] > limit for run in runs]
    if given["ever"] == "yes":
        return f"{sum(bool(course.any()) for course in measured)} of {len(runs)}"
    return f"{100 * float(np.concatenate(measured).mean()):.0f} %"


def _shown(given: Mapping[str, str], kind: str, *counts: str) -> bool:
    """Return True if `show` is one of the counts, False if it is "value". Raises SpecError for other words."""
    if given["show"] not in ("value", *counts):
        raise SpecError(f"a {kind} has no {given['show']!r}", fix=f"one of: value, {', '.join(counts)}")
    return given["show"] != "value"


def _with_interval(changes: Mapping[Replicate, float], digits: int) -> str:
    estimate = over_replicates(changes, builds="fixed")
    return f"{number(estimate.value, digits, True)} {interval(estimate, digits, True)}".strip()


def _values(results: Results, metric: str, of: str, last: str) -> dict[Replicate, float]:
    parts = [
        {replicate: _value(results, run, metric, last) for replicate, run in replicates(results, text).items()}
        for text in of.split("|")
    ]
    if any(part.keys() != parts[0].keys() for part in parts):
        raise SpecError(f"the conditions of {of} have other builds or seeds", fix="average those whose runs are pairs")
    return {replicate: float(np.mean([part[replicate] for part in parts])) for replicate in parts[0]}


def _value(results: Results, run: RunView, metric: str, last: str) -> float:
    """Return the mean of a run's last measurements of a metric: of "4", of "all", or the first one for "0"."""
    _, values = results.curve(run.id, metric)
    wanted = 1 if last == ALL else max(1, whole({"last": last}, "last"))
    if len(values) < wanted:
        raise SpecError(
            f"run {run.id} has {len(values)} measurements of {metric!r}",
            fix=" ".join(results.unlogged([metric])) or "take fewer",
        )
    if last == ALL:
        return float(values.mean())
    return float(values[0] if last == "0" else values[-wanted:].mean())


def _limit(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise SpecError(f"{name}={text} is no number", fix=f"write {name}=.4") from error
