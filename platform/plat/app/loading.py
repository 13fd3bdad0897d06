"""Load the experiment and search files that a command line names, under its overrides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.app.entries import with_earlier_ids
from plat.app.home_runs import find_run, home_option
from plat.app.messages import tell
from plat.errors import PlatError, SpecError, UnknownTrainer
from plat.store.home import Home
from plat.store.many_runs import descriptions, states
from plat.store.run_directory.paths import RunPaths
from plat.words.outcomes import PRUNED

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment, Run

OF_A_RUN = "`plat why {id}{home}` explains it, `plat runs --where id={id}{home}` shows its results"
SHORTEST_ID = 4  # a shorter name of a missing file is never taken for the beginning of a run's id
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_cluster_argument(text: str) -> bool:
    """Return True for an argument that configures a scheduler, not a run."""
    return text.startswith(("cluster=", "cluster."))


def split(arguments: Sequence[str] | None) -> tuple[list[Path], list[str]]:
    """Split arguments into files and overrides (those with `=`, except existing YAML files); drop cluster arguments."""
    files, overrides = [], []
    for argument in arguments or ():
        if is_cluster_argument(argument):
            continue
        if "=" in argument and not (argument.endswith((".yaml", ".yml")) and Path(argument).exists()):
            overrides.append(argument)
        else:
            files.append(Path(argument))
    return files, overrides


def load_experiments(
    arguments: Sequence[str] | None,
    *,
    required: bool = True,
    home: str | None = None,
    without_file: str = "`plat run KEY=VALUE...` does one run without a file",
    of_a_run: str = OF_A_RUN,
    with_searches: bool = False,
    from_home: bool = False,
) -> list[Experiment]:
    """Return the experiments named on the command line, each with all the overrides.

    Raises SpecError if no file is named although `required`, and for an argument that is not a valid experiment file.

    home           the verb's --home, to recognise names of runs
    without_file   the advice when no file is named; `{home}` in it becomes `--home DIR` where that is needed
    of_a_run       the advice when a run is named; `{id}` is its id, `{home}` as above
    with_searches  also take search files: as the runs that their trials have begun
    from_home      also take files whose trainer is not installed: with the runs that the home has of them
    """
    from plat.spec.expansion.experiment import load_experiments as load_files

    for argument in arguments or ():
        if _ADDRESS.match(argument):
            what = "an experiment file is a file on this machine, not an address"
            raise SpecError(what, where=argument, fix="download it, and name the file")
    files, overrides = split(arguments)
    if required and not files:
        instead = without_file.format(home=home_option(Home.find(home)))
        what = "no experiment file named"
        raise SpecError(what, where="the command line", fix=f"name one, for example experiment.yaml; {instead}")
    for file in files:
        if file.exists() and not file.is_file() and not file.is_dir():  # reading a pipe could block forever
            what = "an experiment file must be a regular file"
            raise SpecError(what, where=str(file), fix="save its text to a file, and name that")
    try:  # `tell` writes to stderr, because a program may read standard output
        loaded = load_files(files, overrides, lambda file, number: tell(f"{file}: making {number:,} runs ..."))
        return with_earlier_ids(loaded, Home.find(home))
    except UnknownTrainer:
        if not from_home:
            raise
        return [_recorded(Home.find(home), file, overrides) for file in files]
    except SpecError:
        if with_searches and any_search(files):
            return _load_all(Home.find(home), files, overrides)
        for file in files:
            if any_search([file]):
                raise SpecError("this is a search file", where=str(file), fix=f"plat tune {file}") from None
        _refuse_runs(files, Home.find(home), of_a_run)
        raise


def _recorded(home: Home, file: Path, overrides: Sequence[str]) -> Experiment:
    """Load an experiment file without its trainer: its runs are those that a home has, for example of a bundle.

    Raises UnknownTrainer if the trainer is not installed and the home lacks a run, and what `load_experiment` raises.
    """
    from plat.spec.expansion.experiment import load_experiment

    try:
        return load_experiment(file, overrides)
    except UnknownTrainer as error:
        runs, unknown = runs_so_far(home, file.stem), error

    def of_cell(labels: Mapping[str, Any]) -> Run:
        for run in runs:
            if all(name in run.axes and run.axes[name] == value for name, value in labels.items()):
                return run
        cell = ", ".join(f"{name}={value}" for name, value in labels.items())
        what = f"{unknown.what}, and this home has no run of {cell}"
        raise UnknownTrainer(what, where=unknown.where, fix=f"`plat import` its bundle, or: {unknown.fix}")

    return load_experiment(file, overrides, recorded=of_cell)


def _refuse_runs(files: Sequence[Path], home: Home, of_a_run: str) -> None:
    """Raise SpecError for a run among experiment files."""
    for file in files:
        if file.is_file() or len(file.name) < SHORTEST_ID:
            continue
        try:
            run = find_run(home, str(file))
        except SpecError:
            continue
        command = of_a_run.format(id=run.id, home=home_option(home))
        raise SpecError("this names a run, and not an experiment file", where=str(file), fix=command)


def any_search(files: Sequence[Path]) -> bool:
    """Return True if one of these files is a search file."""
    from plat.spec.reading.experiment_file import is_search

    return any(file.is_file() and is_search(file) for file in files)


def _load_all(home: Home, files: Sequence[Path], overrides: Sequence[str]) -> list[Experiment]:
    """Load experiment and search files under the same overrides; a search becomes an experiment of its runs so far."""
    from plat.search.search_file import read_searches
    from plat.spec.expansion.experiment import load_experiment

    experiments: list[Experiment] = []
    for file in files:
        if any_search([file]):
            searches = read_searches(file, overrides)
            experiments += [search.experiment(runs_so_far(home, search.name)) for search in searches]
        else:
            experiments += with_earlier_ids([load_experiment(file, overrides)], home)
    return experiments


def runs_so_far(home: Home, search: str) -> list[Run]:
    """Return the runs of this home whose meta.json names the search; an unreadable run is left out with a warning."""
    known = descriptions(home, home.run_ids())
    return read_runs(home.run(run_id) for run_id, description in known.items() if search in description.experiments)


def read_runs(directories: Iterable[RunPaths]) -> list[Run]:
    """Return the runs of these directories; an unreadable run is left out with a warning."""
    from plat.store.run_directory.run_files import read_run

    runs = []
    for paths in directories:
        try:
            runs.append(read_run(paths))
        except PlatError as error:
            tell(f"warning: {error.what} ({error.where})")
    return runs


def without_given_up(home: Home, experiments: Sequence[Experiment]) -> list[Experiment]:
    """Return the experiments, with searches reduced to runs that were not pruned: pruned runs need no result."""
    ids = [run.id for experiment in experiments if experiment.is_search for run in experiment.runs]
    given_up = {run_id for run_id, state in states(home, ids).items() if state.outcome == PRUNED}
    return [
        replace(experiment, runs=[run for run in experiment.runs if run.id not in given_up])
        if experiment.is_search
        else experiment
        for experiment in experiments
    ]


def brought_up_to_date(home: Home, experiments: Sequence[Experiment]) -> list[Experiment]:
    """Return the experiments, with searches updated to the runs that they have begun by now."""
    return [
        replace(experiment, runs=runs_so_far(home, experiment.name)) if experiment.is_search else experiment
        for experiment in experiments
    ]
