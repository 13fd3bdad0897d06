"""`plat retry`: failed runs again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from plat.cli import reports
from plat.cli.common import (
    HomeOption,
    JobsOption,
    StealOption,
    StoreOption,
    load_experiments,
)
from plat.cli.entries import asked_by, entry_of
from plat.cli.missing_runs import conclude, distinct, run_missing
from plat.cli.place import OnOption, WaitOption, chosen_place
from plat.cli.run_facts import RunFacts
from plat.cli.selection import WhereOption, parse_where
from plat.cli.settings import verb
from plat.cli.standing import COMMANDS
from plat.cli.targets import Targets, named_runs, selected
from plat.errors import PlatError
from plat.outcomes import PRUNED, is_failure
from plat.store.home import Home
from plat.store.run_directory.files import read_outcome
from plat.store.run_directory.paths import RunPaths
from plat.units import are, counted

if TYPE_CHECKING:
    from plat.spec.experiment import Run


@verb(reads_trainers=True)
def retry(
    arguments: Targets = None,
    where: WhereOption = None,
    jobs: JobsOption = None,
    steal: StealOption = False,
    on: OnOption = "local",
    wait: WaitOption = None,
    home: HomeOption = None,
    store: StoreOption = None,
) -> int:
    """Run failed runs again.

    Those that are named, those of the named files, or all of this home; here, or with --on where a scheduler has them
    executed. A trial of a search that has failed stays so, whatever becomes of its runs. For example: plat retry
    table4.yaml --where task=sokoban --on slurm cluster=mine
    """
    from plat.plan.check import check_machine
    from plat.store.run_directory.recorded_run import read_run

    target = chosen_place(arguments, on, wait)
    selection = parse_where(where)
    place = Home.find(home)
    uri = place.store_uri(store)
    named, others = named_runs(place, arguments)
    experiments = load_experiments(others, required=False, home=home, with_searches=True)
    for experiment in experiments:
        if not experiment.is_search:  # its report is `plat tune`'s own
            reports.check_report(experiment)
    asked = [*map(read_run, named), *distinct(experiments)] if named or experiments else _runs_of(place)
    runs = {run.id: run for run in asked}
    everything = [RunFacts(place, entry_of(place, run)) for run in runs.values()]
    states = {facts.entry.id: facts.entry.state for facts in selected(everything, selection, experiments)}
    stopped = [run_id for run_id, state in states.items() if state.state == "interrupted" and state.outcome != PRUNED]
    verbs = asked_by(place, experiments, stopped)
    left = {run_id for run_id in stopped if verbs.get(run_id) == "tune" and _has_failed(place.run(run_id))}
    chosen = [runs[run_id] for run_id, state in states.items() if state.state == "failed" or run_id in left]
    if not chosen:
        commands = " and ".join(sorted({COMMANDS[verbs.get(run_id, "sweep")] for run_id in stopped}))
        number = len(stopped)
        mend = f"; {counted(number, 'run')} {are(number)} interrupted: {commands} goes on there" if stopped else ""
        print(f"no failed run to try again{mend}")
        return 0
    if target.is_here:
        check_machine(chosen, place)
    place.create()
    report = run_missing(place, uri, chosen, experiments, jobs=jobs, steal=steal, retry=True, target=target)
    of_searches = experiments and all(experiment.is_search for experiment in experiments)
    return conclude(report, "retry" if of_searches else "sweep")


def _has_failed(run: RunPaths) -> bool:
    """Whether an earlier attempt of a run has failed. Then the trial of a search that wanted it has failed, and does
    not go on with it when the newest attempt was interrupted."""
    return any(is_failure((read_outcome(attempt) or {}).get("outcome")) for attempt in run.attempts())


def _runs_of(home: Home) -> list[Run]:
    """The runs of this home's directories; a directory that cannot be read is left out, with a warning."""
    from plat.store.run_directory.recorded_run import read_run

    runs = []
    for paths in home.all_runs():
        try:
            runs.append(read_run(paths))
        except PlatError as error:
            print(f"warning: {error.what} ({error.where})", file=sys.stderr)
    return runs
