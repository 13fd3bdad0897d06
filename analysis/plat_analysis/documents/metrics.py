"""A metric in the runs of one condition, and its difference between two conditions, paired by build and seed.

Conditions with `|` between them are averaged within each build and seed: `cost=a|cost=b`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plat.errors import SpecError
from plat_analysis.artifact import interval, number, p_value
from plat_analysis.data.runs import Results, RunView
from plat_analysis.documents.conditions import options, replicates
from plat_analysis.report.report import Report
from plat_analysis.statistics.replicates import Replicate, over_replicates

MEAN = {"last": "1", "digits": "2", "times": "1"}
DIFFERENCE = {"last": "1", "digits": "3", "show": "value"}
ALL = "all"  # in the place of a number of measurements
SHOWN = ("value", "p", "positive")


def mean(report: Report, words: Sequence[str]) -> str:
    """The mean over the runs of a condition: of the last measurement, of the last N (`last=N`), of all (`last=all`), or
    of the first one (`last=0`); in percent with `times=100`."""
    if len(words) < 2:
        raise SpecError("it names no metric and condition", mend="write `EXPERIMENT mean METRIC CONDITION [last=N]`")
    given = options(words[2:], MEAN)
    mean_value = np.mean(list(_values(report.results, words[0], words[1], given["last"]).values()))
    return number(whole(given, "times") * float(mean_value), whole(given, "digits"))


def difference(report: Report, words: Sequence[str]) -> str:
    """The first condition minus the second one, with its 95 % interval about these builds (Student's t):
    `+0.020 [+0.008, +0.032]`; with `show=p`, `p .005`; with `show=positive`, `8 of 10`."""
    if len(words) < 3:
        raise SpecError(
            "it names no metric and two conditions",
            mend="write `EXPERIMENT difference METRIC CONDITION CONDITION [last=N]`",
        )
    given = options(words[3:], DIFFERENCE)
    first, second = (_values(report.results, words[0], text, given["last"]) for text in words[1:3])
    if first.keys() != second.keys():
        raise SpecError("the conditions have other builds or seeds", mend="compare conditions whose runs are pairs")
    changes = {replicate: first[replicate] - second[replicate] for replicate in first}
    if given["show"] == "positive":
        return f"{sum(change > 0 for change in changes.values())} of {len(changes)}"
    estimate = over_replicates(changes, builds="fixed")
    if given["show"] == "p":
        above, below = estimate.p_above(0.0), estimate.p_below(0.0)
        return f"p {p_value(None if above is None or below is None else 2 * min(above, below))}"
    if given["show"] != "value":
        raise SpecError(f"a difference has no {given['show']!r}", mend=f"one of: {', '.join(SHOWN)}")
    digits = whole(given, "digits")
    return f"{number(estimate.value, digits, True)} {interval(estimate, digits, True)}".strip()


def _values(results: Results, metric: str, of: str, last: str) -> dict[Replicate, float]:
    parts = [
        {replicate: value(results, run, metric, last) for replicate, run in replicates(results, text).items()}
        for text in of.split("|")
    ]
    if any(part.keys() != parts[0].keys() for part in parts):
        raise SpecError(f"the conditions of {of} have other builds or seeds", mend="average those whose runs are pairs")
    return {replicate: float(np.mean([part[replicate] for part in parts])) for replicate in parts[0]}


def value(results: Results, run: RunView, metric: str, last: str) -> float:
    """The mean of a run's last measurements of a metric: of "4", of "all", or the first one for "0"."""
    _, values = results.curve(run.id, metric)
    wanted = 1 if last == ALL else max(1, whole({"last": last}, "last"))
    if len(values) < wanted:
        raise SpecError(
            f"run {run.id} has {len(values)} measurements of {metric!r}",
            mend=" ".join(results.unlogged([metric])) or "take fewer",
        )
    if last == ALL:
        return float(values.mean())
    return float(values[0] if last == "0" else values[-wanted:].mean())


def whole(given: dict[str, str], name: str) -> int:
    """An option as a number; SpecError where it is none."""
    if not given[name].isdecimal():
        raise SpecError(f"{name}={given[name]} is no whole number", mend=f"write {name}=4")
    return int(given[name])
