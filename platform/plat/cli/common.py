"""What the verbs share: their options, the split of arguments into files and overrides, and how a run is named."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plat.cli.output import tell
from plat.cli.place import is_cluster_argument
from plat.errors import HomeError, SpecError
from plat.store.home import Home
from plat.store.run_directory.files import load_meta
from plat.store.run_directory.paths import RunPaths
from plat.suggest import nearest
from plat.units import counted

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment, Run


OF_A_RUN = "`plat why {id}{home}` explains it, `plat runs --where id={id}{home}` shows its results"
SHORTEST_ID = 4  # letters of a missing file's name that may be the beginning of a run's id
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SPEC | KEY=VALUE]...", help="Experiment files, and overrides of what is in them."),
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's name, id, or the beginning of its id.")]
HomeOption = Annotated[
    str | None, typer.Option("--home", metavar="DIR", help="Where runs are kept [PLAT_HOME, ./plat-home].")
]
StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="URI", help="MLflow store [MLFLOW_TRACKING_URI, SQLite in the home].")
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Runs at once [as many as the cores allow].")
]
StealOption = Annotated[bool, typer.Option("--steal", help="Take over runs whose owner cannot be asked.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


def split(arguments: Sequence[str] | None) -> tuple[list[Path], list[str]]:
    """Arguments with `=` are overrides, the others are experiment files; a path that exists is always a file.

    What says how a cluster is to be used (`cluster=NAME`) is neither: it is no part of a run.
    """
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
) -> list[Experiment]:
    """The experiments named on the command line, each with all the overrides. SpecError when none is named.

    home          the verb's --home, to tell the names of its runs from those of files
    without_file  what to type where there is no file
    of_a_run      what to type where a run was named; `{id}` is its id
    with_searches  take search files, too: for the runs of their trials so far (`plat.cli.searches`)

    In both `{home}` is the option that names the home, where that is needed.
    """
    from plat.spec import experiment

    for argument in arguments or ():
        if _ADDRESS.match(argument):
            raise SpecError(
                "an experiment file is a file on this machine, not an address",
                where=argument,
                mend="download it, and name the file",
            )
    files, overrides = split(arguments)
    if required and not files:
        instead = without_file.format(home=home_option(Home.find(home)))
        raise SpecError(
            "no experiment file named",
            where="the command line",
            mend=f"name one, for example experiments/table4.yaml; {instead}",
        )
    for file in files:
        if file.exists() and not file.is_file() and not file.is_dir():  # a pipe would be waited for without end
            raise SpecError(
                "an experiment file must be a regular file",
                where=str(file),
                mend="save its text to a file, and name that",
            )
    try:
        return experiment.load_experiments(files, overrides, _say_many)
    except SpecError:
        if with_searches:
            from plat.cli.searches import any_search, load_all

            if any_search(files):
                return load_all(Home.find(home), files, overrides)
        _refuse_searches(files)
        _refuse_runs(files, Home.find(home), of_a_run)
        raise


def say_changed_code(runs: Iterable[Run], home: Home) -> None:
    """Say on stderr which files of plug-ins changed since runs were made, and which runs that makes new."""
    from plat.plan.changed_code import changed_code

    for line in changed_code(runs, home):
        tell(f"note: {line}")


def warn_of_idle(runs: Sequence[Run], overrides: Sequence[str]) -> None:
    """Say on stderr which of the overrides on the command line change nothing in any of the runs."""
    from plat.plan.check import idle_overrides

    for key, reason in idle_overrides(runs, _keys_of(overrides)).items() if runs and overrides else ():
        tell(f"warning: {key} has no effect: {reason}")


def warn_of_idle_parts(experiments: Sequence[Experiment], overrides: Sequence[str]) -> None:
    """Say on stderr what of the files, but for what the command line gives, changes nothing.

    Axes that have no effect in any of a file's runs, or only at some positions, which share runs with others then; and
    values of `base`, unless overrides may have made them so.
    """
    from plat.plan.check import idle_overrides, shared_positions

    for experiment in experiments:
        axes = [axis for axis, values in experiment.axes.items() if len(values) > 1 and axis not in _keys_of(overrides)]
        idle = idle_overrides(experiment.runs, axes)
        for axis, reason in idle.items():
            tell(f"warning: {experiment.path}: the runs of the axis {axis} cannot differ: {reason}")
        for keys, (number, reason) in shared_positions(experiment).items():
            if not idle.keys() & set(keys):
                which = f"{number} of {counted(len(experiment.cells), 'position')}"
                share = "shares its run with another" if number == 1 else "share their runs with others"
                tell(f"note: {experiment.path}: {which} {share}, differing in {' and '.join(keys)} alone: {reason}")
        base = () if overrides else [key for key in experiment.base if key not in experiment.axes]
        for key, reason in idle_overrides(experiment.runs, base).items():
            tell(f"warning: {experiment.base[key]}: {key} has no effect: {reason}")


def _say_many(file: Path, runs: int) -> None:
    """Say what takes so long, on stderr: standard output may be read by a program."""
    tell(f"{file}: making {runs:,} runs ...")


def _keys_of(overrides: Sequence[str]) -> list[str]:
    """The keys, or axes, that overrides give values to."""
    return [override.partition("=")[0].strip().removeprefix("matrix.") for override in overrides]


def _refuse_searches(files: Sequence[Path]) -> None:
    """SpecError for a search file among files that are to be experiments."""
    from plat.search.file import is_search

    for file in files:
        if file.is_file() and is_search(file):
            raise SpecError("this is a search file", where=str(file), mend=f"plat tune {file}")


def _refuse_runs(files: Sequence[Path], home: Home, of_a_run: str) -> None:
    """SpecError for a run among files that are to be experiments."""
    for file in files:
        if file.is_file() or len(file.name) < SHORTEST_ID:
            continue
        try:
            run = find_run(home, str(file))
        except SpecError:
            continue
        command = of_a_run.format(id=run.id, home=home_option(home))
        raise SpecError("this names a run, and not an experiment file", where=str(file), mend=command)


def home_option(home: Home) -> str:
    """` --home DIR`, where a command without it would use another home; else ""."""
    return "" if Home.find().root == home.root else f" --home {shlex.quote(str(home.root))}"


def home_to_read(explicit: str | None) -> Home:
    """The home that a verb shows; HomeError where --home names one that is not there.

    Without --home a missing home has no runs yet, which is no mistake.
    """
    home = Home.find(explicit).checked()
    if explicit is not None and not home.exists():
        raise HomeError(
            "there is no home here",
            where=str(home.root),
            mend="name the one that `plat sweep` made, with --home DIR; without it, PLAT_HOME or ./plat-home is used",
        )
    return home


def find_run(home: Home, text: str) -> RunPaths:
    """The run meant by a name, an id, the beginning of an id, or the path of its directory."""
    path = Path(text)
    if path.is_dir() and (path / "meta.json").exists():
        return RunPaths(path.absolute())
    if path.is_dir():
        raise SpecError(
            "this directory is not a run's",
            where=str(path.absolute()),
            mend="name a run by its name or the beginning of its id; `plat status` lists those of a home",
        )
    if path.is_file():
        raise SpecError(
            "this is a file, not a run", where=text, mend=f"`plat runs {text}` lists the runs that it names"
        )
    beginning = text.rsplit("-", 1)[-1]  # a name ends in the first half of the id
    hits = home.layout.ids_beginning(beginning) if beginning else []
    if len(hits) == 1:
        return home.run(hits[0])
    if hits:
        instead = f"one of: {', '.join(hits[:8])}"
        raise SpecError(f"{text!r} is the beginning of {len(hits)} runs", where=str(home.runs), mend=instead)
    archived = [run_id for run_id in home.archived_ids() if beginning and run_id.startswith(beginning)]
    if archived:
        command = f"plat archive --restore {archived[0]}{home_option(home)}"
        raise SpecError(
            f"the run {text!r} is in the archive", where=str(home.archive), mend=f"bring it back: {command}"
        )
    names = [name for run_id in home.run_ids() if (name := run_name(home.run(run_id)))]
    near = nearest(text, names, cutoff=0.3)
    raise SpecError(
        f"no run {text!r}",
        where=str(home.runs),
        mend=f"did you mean {near}?" if near else "`plat status` lists the runs of this home",
    )


def run_name(paths: RunPaths) -> str:
    """The readable name of a run, or its id when the directory does not say."""
    return (load_meta(paths) or {}).get("name") or paths.id


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    import json

    print(json.dumps(value, indent=2, default=str))


def on_terminal() -> bool:
    return sys.stdout.isatty()
