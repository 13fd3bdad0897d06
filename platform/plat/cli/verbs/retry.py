"""`plat retry`: run failed runs again."""

from __future__ import annotations

from pathlib import Path

from plat.app.checking import check_report
from plat.app.chosen_runs import named_runs, selected
from plat.app.entries import asked_by, distinct, entry_of
from plat.app.loading import load_experiments, read_runs
from plat.app.run_facts import RunFacts
from plat.app.run_selection import parse_where
from plat.app.standing import COMMANDS
from plat.app.sweeping import Sweep, chosen_place, run_missing
from plat.cli.common import (
    HomeOption,
    JobsOption,
    OnOption,
    StealOption,
    StoreOption,
    Targets,
    WaitOption,
    WhereOption,
    verb,
)
from plat.cli.result import Result
from plat.cli.schemas.results import SweepData
from plat.cli.screen.failure_words import conclude
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import read_outcome, read_run
from plat.trainer.finding import find_trainer
from plat.units import are, counted
from plat.words.outcomes import PRUNED, is_failure
from plat.words.states import RunStatus


@verb(SweepData, reads_trainers=True, lines=True)
def retry(
    arguments: Targets = None,
    where: WhereOption = None,
    jobs: JobsOption = None,
    steal: StealOption = False,
    on: OnOption = "local",
    wait: WaitOption = None,
    home: HomeOption = None,
    store: StoreOption = None,
) -> Result:
    """Run failed runs again.

    Takes the named runs, those of the named files, or all of this home; with --on, a scheduler executes them. A failed
    trial of a search stays failed, however its runs end. For example: plat retry mine.yaml --where lr=0.1
    --on slurm cluster=mine
    """
    from plat.cli.screen.json_lines import ends_data, progress_of_verb
    from plat.dispatch.sweep_ends import SweepReport
    from plat.planning.check import check_machine

    target = chosen_place(arguments, on, wait)
    selection = parse_where(where)
    place = Home.find(home)
    uri = place.store_uri(store)
    named, others = named_runs(place, arguments)
    experiments = load_experiments(others, required=False, home=home, with_searches=True)
    for experiment in experiments:
        if not experiment.is_search:  # `plat tune` makes the report of a search
            check_report(experiment)
    asked = [*map(read_run, named), *distinct(experiments)] if named or experiments else read_runs(place.all_runs())
    runs = {run.id: run for run in asked}
    everything = [RunFacts(place, entry_of(place, run)) for run in runs.values()]
    states = {facts.entry.id: facts.entry.state for facts in selected(everything, selection, experiments)}
    interrupted = {run_id: state for run_id, state in states.items() if state.state == RunStatus.INTERRUPTED}
    stopped = [run_id for run_id, state in interrupted.items() if state.outcome != PRUNED]
    verbs = asked_by(place, experiments, stopped)
    left = {run_id for run_id in stopped if verbs.get(run_id) == "tune" and _has_failed(place.run(run_id))}
    chosen = [runs[run_id] for run_id, state in states.items() if state.state == RunStatus.FAILED or run_id in left]
    if not chosen:
        commands = " and ".join(sorted({COMMANDS[verbs.get(run_id, "sweep")] for run_id in stopped}))
        number = len(stopped)
        which = "it" if number == 1 else "them"
        fix = f"; {counted(number, 'run')} {are(number)} interrupted: {commands} resumes {which}" if stopped else ""
        return Result(ends_data(SweepReport()), f"no failed run to try again{fix}")
    for trainer in {run.trainer for run in chosen} if not experiments else ():
        find_trainer(trainer, Path())  # no file says where its module is: it may be in the current folder
    if target.is_here:
        check_machine(chosen, place)
    asked_for = Sweep(place, uri, target, jobs, steal)
    report = run_missing(asked_for, chosen, experiments, retry=True, progress=progress_of_verb())
    of_searches = experiments and all(experiment.is_search for experiment in experiments)
    return Result(ends_data(report), code=conclude(report, "retry" if of_searches else "sweep"))


def _has_failed(run: RunPaths) -> bool:
    """Return True if an attempt of the run has failed: then no search resumes it, because its trial has failed, too."""
    return any(is_failure((read_outcome(attempt) or {}).get("outcome")) for attempt in run.attempts())
