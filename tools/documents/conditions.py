"""Read the words of a region. Runs are chosen by their axes: `filter=none`, or `task=sokoban,filter=top_p`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis.data.results import Results, RunView
from plat_analysis.facets import add_run
from plat_analysis.statistics.replicates import Replicate
from plat_ragen2.regimes.regime import Thresholds

Value = TypeVar("Value")


def named(values: Mapping[str, Value], words: Sequence[str], kind: str) -> Value:
    """Return the value that the first word names. Raises SpecError if the report has no value of that name."""
    name = words[0] if words else ""
    if name not in values:
        raise SpecError(f"the report has no {kind} {name!r}", fix=suggest(name, values, f"{kind}s"))
    return values[name]


def check_count(words: Sequence[str], count: int, problem: str, usage: str) -> None:
    """Raise SpecError, with the message `problem`, unless there are exactly `count` words.

    usage  the correct form without EXPERIMENT, e.g. "setting KEY"; the error suggests it
    """
    if len(words) != count:
        raise SpecError(problem, fix=f"write `EXPERIMENT {usage}`")


def options(words: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults updated by words `NAME=VALUE`, or `NAME` for "yes". SpecError for a name without default."""
    values = dict(defaults)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in defaults:
            raise SpecError(f"there is no option {word!r}", fix=f"one of: {', '.join(defaults) or 'none'}")
        values[name] = value if equals else "yes"
    return values


def whole(given: Mapping[str, str], name: str) -> int:
    """Return an option as a whole number from 0. Raises SpecError if it is none."""
    if not given[name].isdecimal():
        raise SpecError(f"{name}={given[name]} is no whole number", fix=f"write {name}=4")
    return int(given[name])


def labels(text: str) -> dict[str, str]:
    """Return `a=b,c=d` as a dictionary. Raises SpecError for a part without `=`."""
    parts = [part.partition("=") for part in text.split(",")]
    wrong = [name for name, equals, _ in parts if not equals]
    if wrong:
        raise SpecError(f"{wrong[0]!r} has no value", fix="write NAME=VALUE, several with commas between them")
    return {name: value for name, _, value in parts}


def condition(results: Results, text: str) -> list[RunView]:
    """Return the runs with these values of axes, or all for "all". SpecError if there is none, or one has no result."""
    wanted = {} if text == "all" else labels(text)
    chosen = [run for run in results.positions if all(run.axis(axis) == value for axis, value in wanted.items())]
    if not chosen:
        raise SpecError(f"no run has {text}", fix="take values of the axes of the experiment file")
    missing = [run for run in chosen if run.missing]
    if missing:
        raise SpecError(f"{len(missing)} of {len(chosen)} runs with {text} have no result", fix="export all of them")
    return chosen


def replicates(results: Results, text: str) -> dict[Replicate, RunView]:
    """Return the runs of a condition by build and seed. Raises SpecError if two share both."""
    runs: dict[Replicate, RunView] = {}
    for run in condition(results, text):
        add_run(runs, run, text)
    return runs


def thresholds(results: Results) -> Thresholds:
    """Return the thresholds of the regimes, from the first report entry that has any, or the defaults."""
    given = (entry.get("thresholds") for entry in results.experiment.report if isinstance(entry, Mapping))
    return Thresholds.read(next((limits for limits in given if limits), None))
