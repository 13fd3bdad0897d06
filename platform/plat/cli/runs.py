"""`plat runs`: one table of runs, chosen, sorted and with the columns asked for. Changes nothing."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from plat.cli.common import (
    Arguments,
    HomeOption,
    JsonOption,
    home_to_read,
    load_experiments,
    print_json,
)
from plat.cli.entries import entries_asked
from plat.cli.run_facts import FIELDS, RunFacts, axes_of, spelled, varying_axes
from plat.cli.selection import WhereOption, parse_where
from plat.cli.settings import verb
from plat.cli.table import table
from plat.cli.targets import selected
from plat.errors import SpecError
from plat.suggest import mend

BEFORE_AXES = ("run", "state")
AFTER_AXES = ("attempts", "iteration", "success", "best", "seconds")


@verb(reads_trainers=True)
def runs(
    arguments: Arguments = None,
    where: WhereOption = None,
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="KEY", help="By this column; -KEY turns the order round.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="A,B,...",
            help="Fields, axes, config keys (train.lr) or metrics (val/return, max:val/return); +A,+B adds to the "
            "usual ones.",
        ),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values, unrounded.")] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """One table of runs: state, axes that vary, attempts, metrics, cost.

    Those of the named files, or all of this home. For example: plat runs table4.yaml --where task=sokoban --sort
    -success --columns +retrieval,+val/return
    """
    if as_csv and as_json:
        raise SpecError("runs are printed as JSON or as CSV", where="--csv --json", mend="leave one of them out")
    if columns is not None and not columns.replace(",", "").strip():
        raise SpecError(
            "--columns names no column", where=f"--columns {columns}", mend="for example --columns run,state"
        )
    selection = parse_where(where)
    experiments = load_experiments(arguments, required=False, home=home, with_searches=True)
    place = home_to_read(home)
    everything = [RunFacts(place, entry) for entry in entries_asked(place, experiments)]
    chosen = selected(everything, selection, experiments)
    shown = chosen_columns(columns, chosen or everything)
    _check_columns([*shown, *([sort.lstrip("-")] if sort else [])], everything)
    if sort:
        chosen = sorted_by(sort, chosen)
    if as_json:
        rows = [{**facts.as_json(), **{key: facts.value(key) for key in shown}} for facts in chosen]
        print_json({"home": str(place.root), "runs": rows})
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(shown)
        writer.writerows([facts.value(key) for key in shown] for facts in chosen)
    elif chosen:
        print(table(shown, [[spelled(key, facts.value(key)) for key in shown] for facts in chosen]))
    else:
        print("no run fits" if everything else f"no runs in {place.root}")
    return 0


def chosen_columns(text: str | None, runs: Sequence[RunFacts]) -> list[str]:
    """The columns of `--columns`; without it the usual ones, the axes that vary among them."""
    usual = [*BEFORE_AXES, *varying_axes(runs), *AFTER_AXES]
    asked = [name.strip() for name in (text or "").split(",") if name.strip()]
    named = [name for name in asked if not name.startswith("+")]
    added = [name.removeprefix("+") for name in asked if name.startswith("+")]
    return list(dict.fromkeys([*(named or usual), *added]))


def _check_columns(names: Sequence[str], runs: Sequence[RunFacts]) -> None:
    """SpecError for a column that is no field, no axis, no config key and no metric of any run."""
    known = [*FIELDS, *axes_of(runs)]
    for name in names:
        metric = name.removeprefix("max:").removeprefix("min:")
        if name in known or not runs or any(facts.config_value(name) is not None for facts in runs):
            continue
        if " " in name:
            raise SpecError(
                f"there is no column {name!r}",
                where="the command line",
                mend=f"columns have commas between them: --columns {','.join(name.split())}",
            )
        metrics = list(dict.fromkeys(key for facts in runs for key in facts.metric_names()))
        if metric not in metrics:
            raise SpecError(
                f"there is no column {name!r}",
                where="the command line",
                mend=mend(metric, [*known, *metrics], "columns"),
            )


def sorted_by(key: str, runs: Sequence[RunFacts]) -> list[RunFacts]:
    """By a column, turned round for `-KEY`; runs without a value come last, numbers before texts."""
    name = key.removeprefix("-")
    values = {id(facts): facts.value(name) for facts in runs}
    with_value = [facts for facts in runs if values[id(facts)] is not None]
    without = [facts for facts in runs if values[id(facts)] is None]
    rank = lambda facts: _rank(values[id(facts)])  # noqa: E731
    return [*sorted(with_value, key=rank, reverse=key.startswith("-")), *without]


def _rank(value: Any) -> tuple[int, float, str]:
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))
