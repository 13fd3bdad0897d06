"""`plat export`: write the results of experiment files as a bundle, or as a logbook for readers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from plat.app.deciding import reduced
from plat.app.entries import with_code_of_runs
from plat.app.home_runs import home_to_read
from plat.app.loading import any_search, load_experiments, split, without_given_up
from plat.app.logbook import write_logbook
from plat.app.messages import tell
from plat.cli.common import RUNS_FAILED, Arguments, CodeOfRunsOption, HomeOption, verb
from plat.cli.result import Result
from plat.cli.schemas.others import ExportData
from plat.cli.screen.table import first_rows, fitted
from plat.errors import SpecError
from plat.units import are, counted


@verb(ExportData, reads_trainers=True)
def export(
    arguments: Arguments = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The bundle or logbook: a new folder.")
    ] = None,
    logbook: Annotated[bool, typer.Option("--logbook", help="Write pages to publish, not a bundle.")] = False,
    code_of_runs: CodeOfRunsOption = False,
    home: HomeOption = None,
) -> Result:
    """Write results as a bundle: small Parquet files.

    It has the results of experiment files, to keep in git or to send; `plat import` makes runs of it again. Exit code 3
    when some runs of the files are not in it. Of a search file, takes the runs of its trials so far, without pruned
    ones.

    With --logbook, writes verdicts, commands, tables and figures as a folder of static pages (HTML and Markdown) that
    can be published as it is: without paths of this machine and secrets.
    """
    from plat.store.bundle.exporter import export_bundle

    if out is None:
        what = f"a {'logbook' if logbook else 'bundle'} needs a place"
        raise SpecError(what, where="--out", fix="name a new folder with --out DIR")
    if logbook:
        return _logbook(arguments, out, code_of_runs, home)
    experiments = load_experiments(
        arguments, home=home, without_file="runs that belong to no file are not exported", with_searches=True
    )
    place = home_to_read(home)
    experiments = with_code_of_runs(experiments, place) if code_of_runs else experiments
    experiments = [reduced(place, place.store_uri(None), one) for one in without_given_up(place, experiments)]
    report = export_bundle(place, experiments, out.absolute(), overrides=split(arguments)[1])
    failed = f" and {report.failed} failed (without their history)" if report.failed else ""
    text = fitted(f"{counted(report.done, 'run')}{failed} exported to {out}")
    if number := len(report.left_out):
        print(f"{counted(number, 'run')} of these files {are(number)} not in the bundle:", file=sys.stderr)
        rows = list(report.left_out.items())
        print(first_rows(("run", "why"), rows, 20, ": `plat status` lists them"), file=sys.stderr)
    return Result(
        {"bundle": str(out), "logbook": None, "hidden": [], **vars(report)}, text, RUNS_FAILED if number else 0
    )


def _logbook(arguments: list[str] | None, out: Path, code_of_runs: bool, home: str | None) -> Result:
    if any_search(split(arguments)[0]):
        fix = "leave --logbook out: `plat export` writes a bundle of its runs; `plat tune` writes its report"
        raise SpecError("a search claims nothing, so it has no logbook", where="--logbook", fix=fix)
    without_file = "runs that belong to no file are not exported"
    experiments = load_experiments(arguments, home=home, without_file=without_file, from_home=True)
    place = home_to_read(home)
    experiments = with_code_of_runs(experiments, place) if code_of_runs else experiments
    made = write_logbook(place, place.store_uri(None), experiments, out.absolute())
    if made.hidden:
        names = ", ".join(made.hidden[:5]) + (", ..." if len(made.hidden) > 5 else "")
        tell(f"note: folders of this machine and secrets are replaced in {names}: read them before you publish them")
    counts = {"done": made.done, "failed": 0, "left_out": dict(made.missing)}
    text = f"{counted(made.claims, 'verdict')} on {made.done} of {counted(made.wanted, 'run')}: {out}/index.html"
    data = {"bundle": None, "logbook": str(out), **counts, "hidden": list(made.hidden)}
    return Result(data, fitted(text), 0 if made.is_whole else RUNS_FAILED)
