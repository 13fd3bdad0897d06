"""A metric in the runs of one condition, and its difference between two conditions, paired by build and seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plat.errors import SpecError
from plat_analysis.artifact import interval, number
from plat_analysis.claims.rows import p_value
from plat_analysis.documents.conditions import options, replicates
from plat_analysis.report.report import Report
from plat_analysis.results.runs import Results, RunView
from plat_analysis.statistics.replicates import Replicate, over_replicates

MEAN = {"last": "1", "digits": "2"}
DIFFERENCE = {"last": "1", "digits": "3", "show": "value"}
SHOWN = ("value", "p", "positive")


def mean(report: Report, words: Sequence[str]) -> str:
    """The mean over the runs of a condition: of the last measurement, of the last N (`last=N`), or of the first one
    (`last=0`)."""
    if len(words) < 2:
        raise SpecError("it names no metric and condition", mend="write `EXPERIMENT mean METRIC CONDITION [last=N]`")
    given = options(words[2:], MEAN)
    last, digits = _whole(given, "last"), _whole(given, "digits")
    return number(float(np.mean(list(_values(report.results, words[0], words[1], last).values()))), digits)


def difference(report: Report, words: Sequence[str]) -> str:
    """The first condition minus the second one, with its 95 % interval about these builds (Student's t):
    `+0.020 [+0.008, +0.032]`; with `show=p`, `p .005`; with `show=positive`, `8 of 10`."""
    if len(words) < 3:
        raise SpecError(
            "it names no metric and two conditions",
            mend="write `EXPERIMENT difference METRIC CONDITION CONDITION [last=N]`",
        )
    given = options(words[3:], DIFFERENCE)
    first, second = (_values(report.results, words[0], text, _whole(given, "last")) for text in words[1:3])
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
    digits = _whole(given, "digits")
    return f"{number(estimate.value, digits, True)} {interval(estimate, digits, True)}".strip()


def _values(results: Results, metric: str, of: str, last: int) -> dict[Replicate, float]:
    return {replicate: _value(results, run, metric, last) for replicate, run in replicates(results, of).items()}


def _value(results: Results, run: RunView, metric: str, last: int) -> float:
    _, values = results.curve(run.id, metric)
    if len(values) < max(1, last):
        raise SpecError(
            f"run {run.id} has {len(values)} measurements of {metric!r}",
            mend=" ".join(results.unlogged([metric])) or "take fewer",
        )
    return float(values[0] if last == 0 else values[-last:].mean())


def _whole(given: dict[str, str], name: str) -> int:
    if not given[name].isdecimal():
        raise SpecError(f"{name}={given[name]} is no whole number", mend=f"write {name}=4")
    return int(given[name])
