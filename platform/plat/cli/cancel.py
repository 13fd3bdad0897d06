"""`plat cancel`: runs that go on are asked to stop, after a checkpoint, until somebody asks for them again."""

from __future__ import annotations

from typing import Annotated

import typer

from plat.cli.common import HomeOption, load_experiments
from plat.cli.entries import STOPPABLE, entries_of
from plat.cli.run_facts import RunFacts
from plat.cli.selection import WhereOption
from plat.cli.settings import verb
from plat.cli.targets import Targets, choose_runs
from plat.errors import SpecError
from plat.store.home import Home
from plat.store.live_sweeps import ask_not_to_start


@verb(reads_trainers=True)
def cancel(
    arguments: Targets = None,
    where: WhereOption = None,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Those that a named file asked for earlier and, as it is now, no longer wants."),
    ] = False,
    home: HomeOption = None,
) -> int:
    """Stop runs, after a checkpoint.

    Their outcome is "cancelled"; the next `plat sweep` that wants them goes on from there. For example: plat cancel
    table4.yaml --where task=sokoban
    """
    from plat.dispatch.cancel import cancel_runs

    if prune and where:
        raise SpecError(
            "--prune takes every run that the file no longer wants",
            where=f"the command line: --where {where[0]}",
            mend="leave --where out, or --prune",
        )
    place = Home.find(home).checked()
    runs = _no_longer_wanted(place, arguments) if prune else choose_runs(place, arguments, where, "cancel").runs
    asked = [facts for facts in runs if facts.entry.state.state in STOPPABLE]
    cancel_runs(place, [facts.entry.id for facts in asked])
    for facts in asked:
        print(f"asked to stop: {facts.entry.name}")
    others = {facts.entry.id: facts.entry.name for facts in runs if facts.entry.state.state not in (*STOPPABLE, "done")}
    waiting = ask_not_to_start(place, others)
    for run_id in waiting:
        print(f"asked a sweep not to start: {others[run_id]}")
    if not asked and not waiting:
        print("none of these runs is going on" if runs else "there is no such run")
    return 0


def _no_longer_wanted(home: Home, arguments: Targets) -> list[RunFacts]:
    """The runs that asked-for files wanted once and no longer do, and that no other file wants."""
    experiments = load_experiments(arguments, required=False)
    if not experiments:
        raise SpecError("--prune needs an experiment file", where="--prune", mend="plat cancel FILE --prune")
    names = {experiment.name for experiment in experiments}
    wanted = {run.id for experiment in experiments for run in experiment.runs}
    unwanted = [RunFacts(home, entry) for entry in entries_of(home) if entry.id not in wanted]
    return [facts for facts in unwanted if facts.files and names.issuperset(facts.files)]
