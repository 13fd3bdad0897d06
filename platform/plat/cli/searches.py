"""Search files where verbs take experiment files: they stand for the runs that their trials have asked for so far.

A run that a search has begun names the search in its meta.json, as it names an experiment file, so the study itself is
not opened. A run that no trial has begun yet is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from plat.cli.output import tell
from plat.errors import PlatError
from plat.outcomes import PRUNED
from plat.store.home import Home
from plat.store.index.runs import descriptions, states
from plat.store.run_directory.recorded_run import read_run

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment, Run


def any_search(files: Sequence[Path]) -> bool:
    """Whether one of these files is a search file."""
    from plat.search.file import is_search

    return any(file.is_file() and is_search(file) for file in files)


def load_all(home: Home, files: Sequence[Path], overrides: Sequence[str]) -> list[Experiment]:
    """Experiment files and search files under the same overrides, a search as an experiment of its runs so far."""
    from plat.search.file import read_searches
    from plat.spec.experiment import load_experiment

    experiments: list[Experiment] = []
    for file in files:
        if any_search([file]):
            searches = read_searches(file, overrides)
            experiments += [search.experiment(runs_so_far(home, search.name)) for search in searches]
        else:
            experiments.append(load_experiment(file, overrides))
    return experiments


def runs_so_far(home: Home, search: str) -> list[Run]:
    """The runs of this home that a search of this name has begun, those included that confirm its winner; one whose
    directory cannot be read is left out, with a warning."""
    known = descriptions(home, home.run_ids())
    runs = []
    for run_id in (run_id for run_id, description in known.items() if search in description.experiments):
        try:
            runs.append(read_run(home.run(run_id)))
        except PlatError as error:
            tell(f"warning: {error.what} ({error.where})")
    return runs


def without_given_up(home: Home, experiments: Sequence[Experiment]) -> list[Experiment]:
    """The same experiments, searches without the runs that were given up: those have no result, and need none."""
    ids = [run.id for experiment in experiments if experiment.is_search for run in experiment.runs]
    given_up = {run_id for run_id, state in states(home, ids).items() if state.outcome == PRUNED}
    return [
        replace(experiment, runs=[run for run in experiment.runs if run.id not in given_up])
        if experiment.is_search
        else experiment
        for experiment in experiments
    ]


def brought_up_to_date(home: Home, experiments: Sequence[Experiment]) -> list[Experiment]:
    """The same experiments, searches with the runs that they have begun by now."""
    return [
        replace(experiment, runs=runs_so_far(home, experiment.name)) if experiment.is_search else experiment
        for experiment in experiments
    ]
