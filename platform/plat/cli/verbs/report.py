"""`plat report`: build tables, figures and one HTML page from the store alone."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from plat.app.entries import with_code_of_runs
from plat.app.importing import catch_up
from plat.app.loading import split
from plat.app.rates import rates_of
from plat.app.report_making import Tolerant, make_report, write_joint
from plat.cli.common import (
    RUNS_FAILED,
    Arguments,
    CodeOfRunsOption,
    HomeOption,
    QuietOption,
    StoreOption,
    shown,
    verb,
)
from plat.cli.result import Result, settings
from plat.cli.schemas.results import ReportsData
from plat.cli.screen.json_lines import report_data
from plat.cli.screen.report_text import printed
from plat.store.home import Home

WITHOUT_FILE = (
    "`plat runs{home}` shows runs that belong to no file (`plat run`), `plat diff RUN RUN{home}` compares them"
)
OutOption = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder of files [HOME/reports/FILE].")]
NoRecordOption = Annotated[bool, typer.Option("--no-record", help="Write nothing into MLflow.")]


@verb(ReportsData, reads_trainers=True)
def report(
    arguments: Arguments = None,
    out: OutOption = None,
    no_record: NoRecordOption = False,
    code_of_runs: CodeOfRunsOption = False,
    home: HomeOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
) -> Result:
    """Build tables, figures and one HTML page.

    Reads the store, which is first brought up to date, and records the findings there. Several files share one page,
    beside the page of each; a file with a mistake is named, and the others are built. With `cluster=NAME` the page has
    the money that the runs cost, at the rates under `cost:` in this profile.
    """
    files, overrides = split(arguments)
    place = Home.find(home).checked()
    uri = place.store_uri(store)
    tolerant = Tolerant(several=len(files := list(dict.fromkeys(files))) > 1)
    experiments = tolerant.load(files, overrides, home, WITHOUT_FILE)
    experiments = with_code_of_runs(experiments, place) if code_of_runs else experiments
    exit_code = 0 if no_record else catch_up(place, uri, experiments)
    make = partial(make_report, record=not no_record, explorer=True, rates=rates_of(arguments))
    built, reports, page = [], [], None
    for experiment in experiments:
        folder = out / experiment.report_name if out and tolerant.several else out
        made = tolerant.call(make, place, uri, experiment, folder)
        if made is not None:
            if not settings.json:
                print(printed(made, quiet), end="")
            made.built.release()
            reports.append(report_data(made))
            built.append(made.built)
            exit_code = exit_code if made.whole and not made.is_outdated else RUNS_FAILED
    if tolerant.several and built:
        page = write_joint(place, uri, built, tolerant.failed, arguments or (), out)
    data = {"reports": reports, "joint_page": str(page) if page else None}
    text = f"all of them on one page: {shown(page)}" if page and not quiet else ""
    return Result(data, text, RUNS_FAILED if tolerant.failed else exit_code)
