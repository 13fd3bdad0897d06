"""`plat runs`: one table of runs, filtered, sorted and with chosen columns. Changes nothing."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from plat.app.chosen_runs import table_of_runs
from plat.app.home_runs import home_to_read
from plat.app.loading import load_experiments
from plat.app.run_facts import RunFacts
from plat.cli.common import Arguments, HomeOption, WhereOption, verb
from plat.cli.result import Result, settings
from plat.cli.schemas.runs import RunsData
from plat.cli.screen.table import table
from plat.errors import SpecError
from plat.suggest import suggest


@verb(RunsData, reads_trainers=True)
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
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="A,B,...", help="With --json: the curves of these metrics.")
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="With --metrics: their newest values only.")] = False,
    home: HomeOption = None,
) -> Result:
    """Print a table of runs: state, axes, attempts, metrics and cost.

    Shows the runs of the named files, or all of this home. For example: plat runs mine.yaml --where lr=0.1
    --sort -accuracy --columns +max:accuracy
    """
    if as_csv and settings.json:
        raise SpecError("runs are printed as JSON or as CSV", where="--csv --json", fix="leave one of them out")
    if (metrics or last) and not (settings.json and metrics):
        what = "--metrics and --last choose what is printed as JSON"
        raise SpecError(what, where="the command line", fix="for example --json --metrics loss --last")
    if columns is not None and not columns.replace(",", "").strip():
        what = "--columns names no column"
        raise SpecError(what, where=f"--columns {columns}", fix="for example --columns run,state")
    experiments = load_experiments(arguments, required=False, home=home, with_searches=True, from_home=True)
    place = home_to_read(home)
    shown, chosen, is_empty = table_of_runs(place, experiments, where, columns, sort)
    names = [name.strip() for name in (metrics or "").split(",") if name.strip()]
    known = dict.fromkeys(name for facts in chosen for name in facts.metric_names()) if names else {}
    for name in names:
        if known and name not in known:
            raise SpecError(f"no run has a metric {name!r}", where="--metrics", fix=suggest(name, known, "metrics"))

    def data() -> dict[str, Any]:
        rows = [{**facts.as_json(), **{key: facts.value(key) for key in shown}} for facts in chosen]
        for facts, row in zip(chosen, rows, strict=True) if names else ():
            row["metrics"] = {name: _newest(facts, name) if last else facts.curve(name) for name in names}
        return {"home": str(place.root), "runs": rows}

    def text() -> str:
        if as_csv:
            return _csv(shown, [[facts.value(key) for key in shown] for facts in chosen])
        if chosen:
            return table(shown, [[facts.text(key) for key in shown] for facts in chosen])
        return f"no runs in {place.root}" if is_empty else "no run fits"

    return Result(data, text)


def _newest(facts: RunFacts, name: str) -> float | None:
    curve = facts.curve(name)
    return curve[-1][1] if curve else None


def _csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().removesuffix("\n")
