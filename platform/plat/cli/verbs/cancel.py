"""`plat cancel`: ask runs to stop after a checkpoint, until a later command asks for them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from plat.app.chosen_runs import choose_runs
from plat.app.entries import STOPPABLE, entries_of
from plat.app.home_runs import home_to_read
from plat.app.loading import load_experiments
from plat.app.run_facts import RunFacts
from plat.cli.common import HomeOption, Targets, WhereOption, verb
from plat.cli.result import Result
from plat.cli.schemas.runs import CancelData
from plat.errors import SpecError
from plat.store.coordination.live_sweeps import ask_not_to_start
from plat.store.home import Home
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment


@verb(CancelData, reads_trainers=True)
def cancel(
    arguments: Targets = None,
    where: WhereOption = None,
    prune: Annotated[bool, typer.Option("--prune", help="Runs that a named file no longer contains.")] = False,
    home: HomeOption = None,
) -> Result:
    """Stop runs after a checkpoint.

    Their outcome is "cancelled"; the next `plat sweep` that includes them resumes them. A search that goes on in Ray
    ends, too. For example: plat cancel mine.yaml --where lr=0.1
    """
    from plat.dispatch.schedulers import cancel_runs, end_search

    if prune and where:
        what = "--prune selects every run that the file no longer contains, so it takes no --where"
        raise SpecError(what, where=f"the command line: --where {where[0]}", fix="leave --where out, or --prune")
    place = home_to_read(home)
    experiments: list[Experiment] = []
    if prune:
        runs = _no_longer_wanted(place, arguments)
    else:
        runs, experiments = choose_runs(place, arguments, where, "cancel")
    searches = [one.name for one in (experiments if not where else ()) if end_search(place, one.name)]
    lines = [f"asked the search to end: {name}" for name in searches]
    asked = [facts for facts in runs if facts.entry.state.state in STOPPABLE]
    cancel_runs(place, [facts.entry.id for facts in asked])
    lines += [f"asked to stop: {facts.entry.name}" for facts in asked]
    others = {
        facts.entry.id: facts.entry.name
        for facts in runs
        if facts.entry.state.state not in (*STOPPABLE, RunStatus.DONE)
    }
    waiting = ask_not_to_start(place, others)
    lines += [f"asked a sweep not to start the run {others[run_id]}" for run_id in waiting]
    if not asked and not waiting:
        lines.append("none of these runs is active" if runs else "there is no such run")
    data = {"asked": [facts.entry.id for facts in asked], "not_to_start": list(waiting), "searches": searches}
    return Result(data, "\n".join(lines))


def _no_longer_wanted(home: Home, arguments: Targets) -> list[RunFacts]:
    """Return the runs that the named files once asked for and no longer contain, and that no other file asked for."""
    experiments = load_experiments(arguments, required=False)
    if not experiments:
        raise SpecError("--prune needs an experiment file", where="--prune", fix="plat cancel FILE --prune")
    names = {experiment.name for experiment in experiments}
    wanted = {run.id for experiment in experiments for run in experiment.runs}
    unwanted = [RunFacts(home, entry) for entry in entries_of(home) if entry.id not in wanted]
    return [facts for facts in unwanted if facts.files and names.issuperset(facts.files)]
