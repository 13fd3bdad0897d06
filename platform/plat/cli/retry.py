"""`plat retry`: failed runs again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from plat.cli import reports
from plat.cli.common import (
    Arguments,
    HomeOption,
    JobsOption,
    StealOption,
    StoreOption,
    load_experiments,
)
from plat.cli.entries import entry_of
from plat.cli.missing_runs import conclude, distinct, run_missing
from plat.cli.place import OnOption, WaitOption, chosen_place
from plat.cli.run_facts import RunFacts
from plat.cli.selection import WhereOption, parse_where
from plat.cli.settings import verb
from plat.cli.targets import selected
from plat.errors import PlatError
from plat.store.home import Home

if TYPE_CHECKING:
    from plat.spec.experiment import Run


@verb(reads_trainers=True)
def retry(
    arguments: Arguments = None,
    where: WhereOption = None,
    jobs: JobsOption = None,
    steal: StealOption = False,
    on: OnOption = "local",
    wait: WaitOption = None,
    home: HomeOption = None,
    store: StoreOption = None,
) -> int:
    """Run failed runs again.

    Those of the named files, or all of this home; here, or with --on where a scheduler has them executed. For example:
    plat retry table4.yaml --where task=sokoban --on slurm cluster=mine
    """
    from plat.plan.check import check_machine

    target = chosen_place(arguments, on, wait)
    selection = parse_where(where)
    experiments = load_experiments(arguments, required=False, home=home, of_a_run="plat retry --where id={id}{home}")
    for experiment in experiments:
        reports.check_report(experiment)
    place = Home.find(home)
    runs = {run.id: run for run in (distinct(experiments) if experiments else _runs_of(place))}
    everything = [RunFacts(place, entry_of(place, run)) for run in runs.values()]
    chosen = [runs[facts.entry.id] for facts in selected(everything, selection) if facts.entry.state.state == "failed"]
    if not chosen:
        print("no failed run to try again")
        return 0
    if target.is_here:
        check_machine(chosen, place)
    place.create()
    report = run_missing(
        place, place.store_uri(store), chosen, experiments, jobs=jobs, steal=steal, retry=True, target=target
    )
    return conclude(report)


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
