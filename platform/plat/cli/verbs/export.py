"""`plat export`: write the results of experiment files as a bundle."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from plat.app.deciding import reduced
from plat.app.home_runs import home_to_read
from plat.app.loading import load_experiments, split, without_given_up
from plat.cli.common import RUNS_FAILED, Arguments, HomeOption, verb
from plat.cli.result import Result
from plat.cli.schemas.others import ExportData
from plat.cli.screen.table import first_rows, fitted
from plat.errors import SpecError
from plat.units import are, counted


@verb(ExportData, reads_trainers=True)
def export(
    arguments: Arguments = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="The bundle: a new folder.")] = None,
    home: HomeOption = None,
) -> Result:
    """Write results as a bundle: small Parquet files.

    It has the results of experiment files, to keep in git or to send; `plat import` makes runs of it again. Exit code 3
    when some runs of the files are not in it. Of a search file, takes the runs of its trials so far, without pruned
    ones.
    """
    from plat.store.bundle.exporter import export_bundle

    if out is None:
        raise SpecError("a bundle needs a place", where="--out", fix="name a new folder with --out DIR")
    experiments = load_experiments(
        arguments, home=home, without_file="runs that belong to no file are not exported", with_searches=True
    )
    place = home_to_read(home)
    experiments = [reduced(place, place.store_uri(None), one) for one in without_given_up(place, experiments)]
    report = export_bundle(place, experiments, out.absolute(), overrides=split(arguments)[1])
    failed = f" and {report.failed} failed (without their history)" if report.failed else ""
    text = fitted(f"{counted(report.done, 'run')}{failed} exported to {out}")
    if number := len(report.left_out):
        print(f"{counted(number, 'run')} of these files {are(number)} not in the bundle:", file=sys.stderr)
        rows = list(report.left_out.items())
        print(first_rows(("run", "why"), rows, 20, ": `plat status` lists them"), file=sys.stderr)
    return Result({"bundle": str(out), **vars(report)}, text, RUNS_FAILED if number else 0)
