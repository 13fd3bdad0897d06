"""The runs of an experiment that a region of a page speaks of: `filter=none`, or `task=sokoban,filter=top_p`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plat.errors import SpecError
from plat_analysis.data.runs import Results, RunView
from plat_analysis.facets import add_run
from plat_analysis.regimes.thresholds import Thresholds
from plat_analysis.statistics.replicates import Replicate


def options(words: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The values of the words `NAME=VALUE`, on top of the defaults; SpecError for another name."""
    values = dict(defaults)
    for word in words:
        name, _, value = word.partition("=")
        if name not in defaults:
            raise SpecError(f"there is no option {word!r}", mend=f"one of: {', '.join(f'{key}=' for key in defaults)}")
        values[name] = value
    return values


def labels(text: str) -> dict[str, str]:
    """`a=b,c=d` as a dictionary; SpecError where a part has no value."""
    parts = [part.partition("=") for part in text.split(",")]
    wrong = [name for name, equals, _ in parts if not equals]
    if wrong:
        raise SpecError(f"{wrong[0]!r} has no value", mend="write NAME=VALUE, several with commas between them")
    return {name: value for name, _, value in parts}


def condition(results: Results, text: str) -> list[RunView]:
    """The runs with these values of axes, all of them for "all"; SpecError where there is none, or one is missing."""
    wanted = {} if text == "all" else labels(text)
    chosen = [run for run in results.positions if all(run.axis(axis) == value for axis, value in wanted.items())]
    if not chosen:
        raise SpecError(f"no run has {text}", mend="take values of the axes of the experiment file")
    missing = [run for run in chosen if run.missing]
    if missing:
        raise SpecError(f"{len(missing)} of {len(chosen)} runs with {text} have no result", mend="export all of them")
    return chosen


def replicates(results: Results, text: str) -> dict[Replicate, RunView]:
    """The runs of a condition by build and seed; SpecError where two share both."""
    runs: dict[Replicate, RunView] = {}
    for run in condition(results, text):
        add_run(runs, run, text)
    return runs


def thresholds(results: Results) -> Thresholds:
    """Those of the rule of regimes that the experiment file's report is made with."""
    given = (entry.get("thresholds") for entry in results.experiment.report if isinstance(entry, Mapping))
    return Thresholds.read(next((limits for limits in given if limits), None))
