"""Count runs of a condition with a property, give the interval of that share, and compare two conditions.

The properties: `fell` (retrieval is shown to have fallen to chance, by the rule of regimes), `no_fluency` (fewer than
one in twenty reasonings at the end are sentences), `fluent` (at least as many as the rule requires), `runs` (every
run), or the name of a regime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scipy.stats import fisher_exact

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis.artifact import p_value
from plat_analysis.report.report import Report
from plat_analysis.statistics.intervals import clopper_pearson
from plat_ragen2.regimes.probe_tables import Probe
from plat_ragen2.regimes.regime import COLLAPSED, FELL_LOW, NEVER, UNDECIDED, Thresholds, fell
from plat_ragen2.regimes.regime_table import RunRegime, run_regime
from tools.documents.conditions import check_count, condition, thresholds

LEAST_FLUENT = 0.05
REGIMES = (*COLLAPSED, FELL_LOW, NEVER, UNDECIDED)


def count(report: Report, words: Sequence[str]) -> str:
    """Return how many runs have a property, `6 of 10`, or `6` with `alone`. Words: PROPERTY CONDITION [alone]."""
    hits, runs = _counted(report, *[word for word in words if word != "alone"])
    return str(hits) if "alone" in words else f"{hits} of {runs}"


def share(report: Report, words: Sequence[str]) -> str:
    """Return `26 to 88 %`: the Clopper-Pearson interval of a property's share. Words: PROPERTY CONDITION."""
    low, high = clopper_pearson(*_counted(report, *words))
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def fisher(report: Report, words: Sequence[str]) -> str:
    """Return `p .011`: Fisher's exact test, two-sided, of a property in two conditions."""
    check_count(words, 3, "a test compares two conditions", "fisher PROPERTY CONDITION CONDITION")
    counts = [_counted(report, words[0], condition) for condition in words[1:]]
    return f"p {p_value(float(fisher_exact([[hits, runs - hits] for hits, runs in counts]).pvalue))}"


def setting(report: Report, words: Sequence[str]) -> str:
    """Return an option's value that all runs share, without a leading zero: `.25`, `16`. SpecError if they differ."""
    check_count(words, 1, "it names no option", "setting KEY")
    values = {run.axis(words[0]) for run in condition(report.results, "all")}
    if len(values) > 1:
        raise SpecError(f"{words[0]} has several values: {', '.join(sorted(values))}", fix="name a part of the matrix")
    return values.pop().removeprefix("0") or "0"


def _counted(report: Report, *words: str) -> tuple[int, int]:
    """Return (number of runs of a condition with a property, number of runs). Words: the property, the condition."""
    check_count(words, 2, "it counts a property in a condition", "count PROPERTY AXIS=VALUE")
    kind, of = words
    runs, limits = condition(report.results, of), thresholds(report.results)
    if kind in REGIMES:
        has: Callable[[RunRegime, Thresholds], bool] = lambda item, _: item.regime.name == kind  # noqa: E731
    elif kind in PROPERTIES:
        has = PROPERTIES[kind]
    else:
        raise SpecError(f"runs have no property {kind!r}", fix=suggest(kind, [*PROPERTIES, *REGIMES], "properties"))
    return sum(has(run_regime(report.results, run, limits), limits) for run in runs), len(runs)


def _final(item: RunRegime) -> Probe:
    if item.final is None:
        raise SpecError(f"the reasonings of run {item.run.id} were not probed", fix="count `runs`")
    return item.final


def _fluency(item: RunRegime) -> float:
    return float(_final(item).fluent.mean())


PROPERTIES: dict[str, Callable[[RunRegime, Thresholds], bool]] = {
    "runs": lambda item, limits: True,
    "fell": lambda item, limits: fell(item.early, _final(item), limits, limits.high),
    "no_fluency": lambda item, limits: _fluency(item) < LEAST_FLUENT,
    "fluent": lambda item, limits: _fluency(item) >= limits.fluent,
}
