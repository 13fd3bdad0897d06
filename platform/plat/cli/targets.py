"""Runs named on a command line: experiment files (with overrides), names and ids of runs, and conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plat.cli.common import find_run, load_experiments
from plat.cli.entries import SHOWN, entries_asked, entry_in
from plat.cli.run_facts import FIELDS, RunFacts
from plat.cli.selection import Selection, parse_where
from plat.errors import SpecError
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment

Targets = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN | SPEC | KEY=VALUE]...", help="Runs, or experiment files with overrides."),
]


@dataclass(frozen=True)
class Chosen:
    """The runs that are meant, and the experiment files that were named."""

    runs: list[RunFacts]
    experiments: list[Experiment]


def choose_runs(home: Home, arguments: Sequence[str] | None, where: Sequence[str] | None, verb: str) -> Chosen:
    """The runs of the named files and the named runs, of which those that fulfil the conditions.

    With conditions alone, of all runs of the home. SpecError when nothing is named: that would mean every run.
    """
    if not arguments and not where:
        raise SpecError(
            f"`plat {verb}` needs to know which runs",
            where=f"the command line: plat {verb}",
            mend="name runs or experiment files, or give a condition such as --where state=failed",
        )
    selection = parse_where(where)
    named, others = named_runs(home, arguments)
    experiments = load_experiments(others, required=False, home=str(home.root), with_searches=True)
    everything = {paths.id: RunFacts(home, entry_in(paths)) for paths in named}
    if experiments or not named:
        for entry in entries_asked(home, experiments):
            everything.setdefault(entry.id, RunFacts(home, entry))
    return Chosen(selected(list(everything.values()), selection, experiments), experiments)


def named_runs(home: Home, arguments: Sequence[str] | None) -> tuple[list[RunPaths], list[str]]:
    """(the runs that arguments name, the other arguments); SpecError for a name that no run has."""
    names = [text for text in arguments or () if _is_run(text)]
    return [find_run(home, name) for name in names], [text for text in arguments or () if text not in names]


def selected(runs: Sequence[RunFacts], selection: Selection, experiments: Sequence[Experiment] = ()) -> list[RunFacts]:
    """The runs that fulfil the conditions; SpecError for a condition on something that no run has.

    Several positions of a matrix may be one run, because their axes have no effect there. Such a run is meant when one
    of its positions in these experiments fulfils all conditions; without a file, a home knows the first position alone.
    """
    if not selection.conditions:
        return list(runs)
    asked: dict[str, list[Mapping[str, Any]]] = {}
    for axes, run_id in (cell for experiment in experiments for cell in experiment.cells):
        asked.setdefault(run_id, []).append(axes)
    positions = {facts.entry.id: asked.get(facts.entry.id) or [facts.entry.axes] for facts in runs}
    names = list(dict.fromkeys(axis for of_run in positions.values() for axes in of_run for axis in axes))

    def values_of(key: str) -> Sequence[Any]:
        """Of an axis and of a key of the configs, the values that runs have: another one is a mistake. Of a field or a
        metric, any value may be meant."""
        if key == "state":
            return SHOWN
        if key in names:
            return [facts.value(key, axes) for facts in runs for axes in positions[facts.entry.id]]
        return [] if key in FIELDS or "/" in key else [facts.config_value(key) for facts in runs]

    if runs:
        selection.check([*names, *FIELDS], runs[0].config_keys, values_of)
    return [
        facts
        for facts in runs
        if any(selection.holds(partial(facts.value, axes=axes)) for axes in positions[facts.entry.id])
    ]


def _is_run(text: str) -> bool:
    """Whether an argument names a run, not a file or an override."""
    return "=" not in text and not text.endswith((".yaml", ".yml")) and not Path(text).is_file()
