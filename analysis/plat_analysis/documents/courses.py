"""How a metric moves within the runs of a condition: from its first measurement to its last ones, and past a limit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plat.errors import SpecError
from plat_analysis.artifact import interval, number
from plat_analysis.documents.conditions import condition, options, replicates
from plat_analysis.documents.metrics import value, whole
from plat_analysis.report.report import Report
from plat_analysis.statistics.replicates import over_replicates

RISE = {"from": "", "last": "1", "digits": "2", "show": "value", "by": "0"}
SHOWN = ("value", "risen", "fallen")
BEYOND = {"above": "", "below": "", "last": "", "ever": ""}


def rise(report: Report, words: Sequence[str]) -> str:
    """The end of a metric minus its first measurement, or minus the first one of `from=METRIC`, with its 95 % interval
    about these builds (Student's t). With `show=fallen` or `show=risen` in how many runs it did so, by more than a
    share of the start with `by=.4`: `4 of 15`."""
    if len(words) < 2:
        raise SpecError("it names no metric and condition", mend="write `EXPERIMENT rise METRIC CONDITION [last=N]`")
    given, results = options(words[2:], RISE), report.results
    runs = replicates(results, words[1])
    starts = {replicate: value(results, run, given["from"] or words[0], "0") for replicate, run in runs.items()}
    changes = {
        replicate: value(results, run, words[0], given["last"]) - starts[replicate] for replicate, run in runs.items()
    }
    if given["show"] == "value":
        estimate, digits = over_replicates(changes, builds="fixed"), whole(given, "digits")
        return f"{number(estimate.value, digits, True)} {interval(estimate, digits, True)}".strip()
    if given["show"] not in SHOWN:
        raise SpecError(f"a rise has no {given['show']!r}", mend=f"one of: {', '.join(SHOWN)}")
    sign, share = (1 if given["show"] == "risen" else -1), _limit("by", given["by"])
    moved = sum(sign * changes[replicate] > share * starts[replicate] for replicate in changes)
    return f"{moved} of {len(changes)}"


def beyond(report: Report, words: Sequence[str]) -> str:
    """In which share of its measurements a metric is above (`above=1`) or below a limit: `79 %`; with `last=N` in how
    many runs the mean of the last N is, with `ever=yes` in how many runs any measurement is: `3 of 5`."""
    if len(words) < 3:
        raise SpecError(
            "it names no metric, condition and limit", mend="write `EXPERIMENT beyond METRIC CONDITION above=1`"
        )
    given, runs = options(words[2:], BEYOND), condition(report.results, words[1])
    if bool(given["above"]) == bool(given["below"]):
        raise SpecError("it takes one limit", mend="write above=LIMIT or below=LIMIT")
    sign, name = (1, "above") if given["above"] else (-1, "below")
    limit = sign * _limit(name, given[name])
    if given["last"]:
        ends = [value(report.results, run, words[0], given["last"]) for run in runs]
        return f"{sum(sign * end > limit for end in ends)} of {len(ends)}"
    for run in runs:
        value(report.results, run, words[0], "1")  # a run without a measurement is an error, no share of nothing
    measured = [sign * report.results.curve(run.id, words[0])[1] > limit for run in runs]
    if given["ever"] == "yes":
        return f"{sum(bool(course.any()) for course in measured)} of {len(runs)}"
    return f"{100 * float(np.concatenate(measured).mean()):.0f} %"


def _limit(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise SpecError(f"{name}={text} is no number", mend=f"write {name}=.4") from error
