"""`plat rm`: remove runs for good."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from plat.app.chosen_runs import choose_runs
from plat.app.entries import STOPPABLE
from plat.app.freshness import forget
from plat.app.home_runs import home_to_read
from plat.app.run_facts import RunFacts
from plat.cli.common import HomeOption, StoreOption, Targets, WhereOption, verb
from plat.cli.result import Result
from plat.cli.schemas.runs import RmData
from plat.cli.screen.table import first_rows
from plat.errors import SpecError
from plat.store.run_directory import lease
from plat.units import counted
from plat.words.states import HELD

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Also take runs that other experiment files asked for.")]
SHOWN = 10  # runs listed in the question


@verb(RmData, reads_trainers=True)
def rm(
    arguments: Targets = None,
    where: WhereOption = None,
    yes: YesOption = False,
    force: ForceOption = False,
    home: HomeOption = None,
    store: StoreOption = None,
) -> Result:
    """Remove runs for good, and their MLflow runs.

    Asks first. Refuses active runs and, without --force, runs that another experiment file asked for. For example:
    plat rm mine.yaml --where state=failed
    """
    from plat.store.cleaning.garbage import remove_runs

    place = home_to_read(home)
    runs = removable(*choose_runs(place, arguments, where, "rm"), force)
    if runs and agreed(f"remove {counted(len(runs), 'run')} for good, and what MLflow has of them", runs, yes):
        remove_runs(place, place.store_uri(store), [facts.paths for facts in runs])
        forget(place)  # remembered reports may show them
        return Result({"removed": [facts.entry.id for facts in runs]}, f"{counted(len(runs), 'run')} removed")
    return Result({"removed": []})


def removable(chosen: Sequence[RunFacts], experiments: Sequence[Experiment], force: bool) -> list[RunFacts]:
    """Return the chosen runs with a directory; print a line if there is none.

    Raises SpecError for an active run and, without `force`, for a run that a file other than `experiments` asked for;
    without `experiments`, for a run that several files asked for.
    """
    runs = [facts for facts in chosen if facts.paths.root.is_dir()]
    if not runs:
        print("there is no such run in this home")
    for facts in runs:
        if facts.entry.state.state in STOPPABLE or lease.state(facts.paths) in HELD:
            fix = f"`plat cancel {facts.entry.id[:8]}` stops it; then give the same command again"
            raise SpecError(f"{facts.entry.name} is active", where=str(facts.paths.lease), fix=fix)
    named = {experiment.name for experiment in experiments}
    for facts in runs:
        others = [file for file in facts.files if file not in named]
        if len(others) > (0 if named else 1) and not force:
            what = f"{facts.entry.name} is also a run of {', '.join(others)}"
            fix = "name these files as well, exclude the run with --where, or give --force"
            raise SpecError(what, where=str(facts.paths.root), fix=fix)
    return runs


def agreed(what: str, runs: Sequence[RunFacts], yes: bool) -> bool:
    """Return True with `yes`, else list the runs, ask, and return the answer. SpecError without a terminal to ask."""
    if yes:
        return True
    print(first_rows(("run", "state"), [(facts.entry.name, facts.entry.state.state) for facts in runs], SHOWN))
    if not sys.stdin.isatty():
        raise SpecError(f"this would {what}", where="the command line", fix="no terminal to ask on: give --yes")
    if input(f"{what}? [y/N] ").strip().lower() in ("y", "yes"):
        return True
    print("nothing was changed")
    return False
