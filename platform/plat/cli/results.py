"""Verbs about results: `plat sync`, `plat report`, `plat claims`; and the reporting half of `plat sweep`."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plat.cli.common import (
    AllowImportOption,
    Arguments,
    HomeOption,
    JsonOption,
    StoreOption,
    VerboseOption,
    load_experiments,
    on_terminal,
    print_json,
)
from plat.errors import HomeError, StoreError
from plat.store.home import Home, RunPaths
from plat.store.uri import shown_uri

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.importer import ImportReport

OutOption = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where the files go [HOME/reports/FILE].")]


def sync(
    arguments: Arguments = None,
    with_diff: Annotated[
        bool, typer.Option("--with-diff", help="Copy the text of uncommitted code changes, too, not only its hash.")
    ] = False,
    home: HomeOption = None,
    store: StoreOption = None,
    allow_import: AllowImportOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Copy what runs recorded into MLflow.

    Runs of the named files, or all of this home. `plat sweep` does this by itself.
    """
    from plat.store.connect import check_store

    place = Home.find(home)
    experiments = load_experiments(arguments, required=False)
    if not place.exists():
        raise HomeError(
            "there is no home directory here, so there are no runs to copy",
            where=str(place.root),
            mend="name the one that `plat sweep` made, with --home DIR (or PLAT_HOME)",
        )
    place.create()
    uri = place.store_uri(store)
    done = import_all(place, uri, experiments, with_diff=with_diff)
    if not (done.imported or done.unchanged):
        check_store(place, uri)  # nothing to import: then nobody has asked the store yet
    print(f"{len(done.imported)} runs brought up to date, {done.unchanged} were so already: {shown_uri(uri)}")
    return done.exit_code


def import_all(
    home: Home,
    uri: str,
    experiments: Sequence[Experiment],
    runs: Sequence[RunPaths] | None = None,
    *,
    with_diff: bool = False,
) -> ImportReport:
    """Import everything durable of these runs (default: the experiments' runs, or all of the home when there are no
    experiments), and say on stderr which could not be."""
    from plat.store.importer import import_runs

    if runs is None and experiments:
        wanted = {run.id: None for experiment in experiments for run in experiment.runs}
        runs = [home.run(run_id) for run_id in wanted]
    done = import_runs(home, uri, experiments, runs, with_diff=with_diff)
    for line in done.warnings():
        print(f"warning: {line}", file=sys.stderr)
    return done


def catch_up(home: Home, uri: str, experiments: Sequence[Experiment]) -> int:
    """Import what can be imported before results are shown; the exit code, 3 when a run was found damaged.

    Where nothing may be written (an archive), what the store holds is shown, with a warning on stderr if it is not up
    to date."""
    if not home.runs.is_dir():
        return 0
    exit_code = 0
    with unless_archived(home, uri, "the store is not brought up to date"):
        exit_code = import_all(home, uri, experiments).exit_code
    return exit_code


@contextlib.contextmanager
def unless_archived(home: Home, uri: str, consequence: str) -> Iterator[None]:
    """Turn a refusal to write into a warning when the home or the SQLite store is there to be read only."""
    from plat.store.mlflow_client import sqlite_path

    try:
        yield
    except (HomeError, StoreError) as error:
        database = sqlite_path(uri)
        places = [home.root, *([database, database.parent] if database else [])]
        if not any(place.exists() and not os.access(place, os.W_OK) for place in places):
            raise
        print(f"warning: {consequence}: {error.what} ({error.where})", file=sys.stderr)


def report(
    arguments: Arguments = None,
    out: OutOption = None,
    home: HomeOption = None,
    store: StoreOption = None,
    allow_import: AllowImportOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Build tables, figures and one HTML page.

    From the store alone, which is brought up to date first.
    """
    experiments = load_experiments(arguments)
    place = Home.find(home).checked()
    uri = place.store_uri(store)
    exit_code = catch_up(place, uri, experiments)
    for experiment in experiments:
        folder = (out / experiment.name if len(experiments) > 1 else out) if out else None
        print(make_report(place, uri, experiment, folder)[0], end="")
    return exit_code


def make_report(home: Home, uri: str, experiment: Experiment, out: Path | None = None) -> tuple[str, list[Path]]:
    """Build, write and log the report of one experiment; what to print, and the files written."""
    from plat.store.reader import Store
    from plat_analysis.report import build_report

    store = Store(uri, home)
    built = build_report(store.load(experiment), experiment)
    folder = out or home.create().reports / experiment.report_name
    written = built.write(folder)
    with unless_archived(home, uri, "the report is not logged into MLflow"):
        store.log_report(experiment, written, built.values)
    return rendered(built) + _paths(folder, written.values()), list(written.values())


def check_report(experiment: Experiment) -> None:
    """SpecError when the file's report or claims cannot be made; better now than after an hour of training."""
    from plat_analysis.checking import check_entries

    check_entries(experiment)


def rendered(built: Any) -> str:
    """The report as the terminal shows it."""
    import io

    from rich.console import Console

    text = io.StringIO()
    console = Console(file=text, force_terminal=on_terminal(), width=width(), highlight=False)
    built.print(console)
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


def width() -> int:
    """Columns of the terminal; a pipe gets room for every column."""
    if on_terminal():
        return shutil.get_terminal_size((160, 40)).columns
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else 160


def layout() -> str:
    """The shape of what is printed: under one layout, the same report is the same text."""
    return f"{width()} {'colour' if on_terminal() and 'NO_COLOR' not in os.environ else 'plain'}"


def _paths(folder: Path, files: Any) -> str:
    """The lines that say where the report is: the page first, then the folder."""
    pages = [path for path in files if path.suffix == ".html"]
    lines = [f"report: {shown(path)}" for path in pages]
    return "\n".join([*lines, f"tables and figures: {shown(folder)}/"]) + "\n"


def shown(path: Path) -> str:
    """A path as a reader would type it: relative where that is shorter."""
    try:
        relative = str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
    return relative


def percent(success: float | None) -> str:
    return "no success measured" if success is None else f"success {100 * success:.1f} %"


def claims(
    arguments: Arguments = None,
    home: HomeOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    allow_import: AllowImportOption = False,
    verbose: VerboseOption = False,
) -> int:
    """The verdict on each claim of the paper."""
    from plat.store.reader import Store

    experiments = load_experiments(arguments or _all_files())
    place = Home.find(home).checked()
    uri = place.store_uri(store)
    exit_code = catch_up(place, uri, experiments)
    from plat_analysis.claims.engine import check_claims

    stored = Store(uri, place)
    verdicts = [verdict for experiment in experiments for verdict in check_claims(stored.load(experiment), experiment)]
    if as_json:
        print_json({"claims": [verdict.as_dict() for verdict in verdicts]})
        return exit_code
    for verdict in verdicts:
        print(f"{verdict.status.replace('_', ' '):15} {verdict.id}: {verdict.says}")
        if verdict.detail:
            print(f"{'':15} {verdict.detail}")
    if not verdicts:
        print("these files claim nothing")
    return exit_code


def _all_files() -> list[str]:
    """The experiment files of this checkout."""
    return [str(path) for path in sorted(Path("experiments").glob("*.yaml"))]
