"""`plat retry`: failed runs again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from plat.cli import reports
from plat.cli.common import (
    AllowImportOption,
    Arguments,
    HomeOption,
    JobsOption,
    StealOption,
    StoreOption,
    VerboseOption,
    load_experiments,
)
from plat.cli.missing_runs import conclude, distinct, run_missing
from plat.errors import PlatError, SpecError
from plat.store.home import Home, RunPaths
from plat.store.run_directory.files import headline_of, read_config, read_meta
from plat.store.run_directory.state import run_state

if TYPE_CHECKING:
    from plat.spec.experiment import Run

WhereOption = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="AXIS=VALUE", help="Only runs with this value; an axis given twice means either."),
]


def retry(
    arguments: Arguments = None,
    where: WhereOption = None,
    jobs: JobsOption = None,
    steal: StealOption = False,
    home: HomeOption = None,
    store: StoreOption = None,
    allow_import: AllowImportOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Run failed runs again.

    Those of the named files, or all of this home.
    """
    wanted = _conditions(where)
    experiments = load_experiments(arguments, required=False)
    for experiment in experiments:
        reports.check_report(experiment)
    place = Home.find(home)
    runs = distinct(experiments) if experiments else _runs_of(place)
    axes = sorted({axis for run in runs for axis in run.axes})
    for axis in wanted:
        if runs and axis not in axes:
            raise SpecError(f"no run has an axis {axis!r}", where="--where", mend=f"one of: {', '.join(axes)}")
    chosen = [
        run
        for run in runs
        if all(str(run.axes.get(axis)) in values for axis, values in wanted.items())
        and run_state(place.run(run.id)).state == "failed"
    ]
    if not chosen:
        print("no failed run to try again")
        return 0
    place.create()
    return conclude(run_missing(place, place.store_uri(store), chosen, experiments, jobs=jobs, steal=steal, retry=True))


def _conditions(where: Sequence[str] | None) -> dict[str, set[str]]:
    """Axis -> the values of which a run must have one; several axes must all fit."""
    conditions: dict[str, set[str]] = {}
    for text in where or ():
        axis, sign, value = text.partition("=")
        if not sign:
            raise SpecError(
                f"--where takes AXIS=VALUE, not {text!r}",
                where=f"the command line: --where {text}",
                mend="for example --where task=sokoban",
            )
        conditions.setdefault(axis, set()).add(value)
    return conditions


def _runs_of(home: Home) -> list[Run]:
    """The runs of this home's directories; a directory that cannot be read is left out, with a warning."""
    runs = []
    for paths in home.all_runs():
        try:
            runs.append(_run_in(paths))
        except PlatError as error:
            print(f"warning: {error.what} ({error.where})", file=sys.stderr)
    return runs


def _run_in(paths: RunPaths) -> Run:
    """The run of a directory."""
    from plat.spec.experiment import Run

    meta = read_meta(paths)
    prepare = tuple(meta["prepare"]) if meta.get("prepare") else None
    return Run(
        meta["id"],
        meta["name"],
        meta["axes"],
        meta["trainer"],
        read_config(paths),
        prepare,
        meta.get("resources", {}),
        headline=headline_of(meta),
    )
