"""`plat runs`: one table of runs, filtered, sorted and with chosen columns. Changes nothing."""

from __future__ import annotations

import csv
import sys
from typing import Annotated

import typer

from plat.app.chosen_runs import table_of_runs
from plat.app.home_runs import home_to_read
from plat.app.loading import load_experiments
from plat.cli.common import Arguments, HomeOption, JsonOption, WhereOption, print_json, verb
from plat.cli.screen.table import table
from plat.errors import SpecError


@verb(reads_trainers=True)
def runs(
    arguments: Arguments = None,
    where: WhereOption = None,
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="KEY", help="Sort by this column; -KEY reverses the order.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B,...", help="Fields, axes, config keys, metrics; +A adds to the usual."),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values, unrounded.")] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print a table of runs: state, axes, attempts, metrics and cost.

    Shows the runs of the named files, or all of this home. For example: plat runs mine.yaml --where lr=0.1
    --sort -accuracy --columns +max:accuracy
    """
    if as_csv and as_json:
        raise SpecError("runs are printed as JSON or as CSV", where="--csv --json", fix="leave one of them out")
    if columns is not None and not columns.replace(",", "").strip():
        what = "--columns names no column"
        raise SpecError(what, where=f"--columns {columns}", fix="for example --columns run,state")
    experiments = load_experiments(arguments, required=False, home=home, with_searches=True, from_home=True)
    place = home_to_read(home)
    shown, chosen, is_empty = table_of_runs(place, experiments, where, columns, sort)
    if as_json:
        rows = [{**facts.as_json(), **{key: facts.value(key) for key in shown}} for facts in chosen]
        print_json({"home": str(place.root), "runs": rows})
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(shown)
        writer.writerows([facts.value(key) for key in shown] for facts in chosen)
    elif chosen:
        print(table(shown, [[facts.text(key) for key in shown] for facts in chosen]))
    else:
        print(f"no runs in {place.root}" if is_empty else "no run fits")
    return 0
