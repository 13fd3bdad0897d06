"""How many runs of a condition have a property, with the interval of that share, and how two conditions compare.

A property is `fell` (retrieval is shown to have fallen to chance, as the rule of regimes has it), `no_fluency` (fewer
than one in twenty reasonings of the end are sentences), `fluent` (at least as many as the rule asks for), `runs` (every
run), or the name of a regime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.artifact import p_value
from plat_analysis.documents.conditions import condition, options, thresholds
from plat_analysis.regimes.regime import fell
from plat_analysis.regimes.regime_table import RunRegime, run_regime
from plat_analysis.regimes.thresholds import COLLAPSED, FELL_LOW, NEVER, UNDECIDED, Thresholds
from plat_analysis.report.report import Report
from plat_analysis.statistics.proportions import clopper_pearson, fisher_exact

LEAST_FLUENT = 0.05
REGIMES = (*COLLAPSED, FELL_LOW, NEVER, UNDECIDED)


def count(report: Report, words: Sequence[str]) -> str:
    """`6 of 10`; with the word `alone`, `6`."""
    alone = "alone" in words
    hits, runs = _counted(report, *_two([word for word in words if word != "alone"]))
    return str(hits) if alone else f"{hits} of {runs}"


def share(report: Report, words: Sequence[str]) -> str:
    """`26 to 88 %`: the Clopper-Pearson interval of a property's share."""
    low, high = clopper_pearson(*_counted(report, *_two(words)))
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def fisher(report: Report, words: Sequence[str]) -> str:
    """`p .011`: Fisher's exact test, two-sided, of a property in two conditions."""
    if len(words) != 3:
        raise SpecError("a test compares two conditions", mend="write `EXPERIMENT fisher PROPERTY CONDITION CONDITION`")
    return f"p {p_value(fisher_exact(*_counted(report, words[0], words[1]), *_counted(report, words[0], words[2])))}"


def setting(report: Report, words: Sequence[str]) -> str:
    """The value of an option that all runs of the experiment share, as people write it: `.25`, `16`."""
    if not words:
        raise SpecError("it names no option", mend="write `EXPERIMENT setting KEY`")
    options(words[1:], {})
    values = {run.axis(words[0]) for run in condition(report.results, "all")}
    if len(values) > 1:
        raise SpecError(f"{words[0]} has several values: {', '.join(sorted(values))}", mend="name a part of the matrix")
    return values.pop().removeprefix("0") or "0"


def _counted(report: Report, kind: str, of: str) -> tuple[int, int]:
    """(how many runs of a condition have a property, how many there are)."""
    runs, limits = condition(report.results, of), thresholds(report.results)
    if kind in REGIMES:
        has: Callable[[RunRegime, Thresholds], bool] = lambda item, _: item.regime.name == kind  # noqa: E731
    elif kind in PROPERTIES:
        has = PROPERTIES[kind]
    else:
        raise SpecError(f"runs have no property {kind!r}", mend=mend(kind, [*PROPERTIES, *REGIMES], "properties"))
    return sum(has(run_regime(report.results, run, limits), limits) for run in runs), len(runs)


def _two(words: Sequence[str]) -> tuple[str, str]:
    if len(words) != 2:
        raise SpecError("it counts a property in a condition", mend="write PROPERTY and AXIS=VALUE, or `all`")
    return words[0], words[1]


def _probed(item: RunRegime) -> RunRegime:
    if item.final is None:
        raise SpecError(f"the reasonings of run {item.run.id} were not probed", mend="count `runs`")
    return item


def _fell(item: RunRegime, limits: Thresholds) -> bool:
    final = _probed(item).final
    assert final is not None
    return fell(item.early, final, limits, limits.high)


def _fluency(item: RunRegime) -> float:
    final = _probed(item).final
    assert final is not None
    return float(final.fluent.mean())


PROPERTIES: dict[str, Callable[[RunRegime, Thresholds], bool]] = {
    "runs": lambda item, limits: True,
    "fell": _fell,
    "no_fluency": lambda item, limits: _fluency(item) < LEAST_FLUENT,
    "fluent": lambda item, limits: _fluency(item) >= limits.fluent,
}
