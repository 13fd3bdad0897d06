"""Verbs that plan and run: `plat plan`, `plat sweep`, `plat run`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from plat.cli import freshness, reports
from plat.cli.common import (
    Arguments,
    HomeOption,
    JobsOption,
    JsonOption,
    StealOption,
    StoreOption,
    load_experiments,
    print_json,
    say_changed_code,
    split,
    warn_of_idle,
    warn_of_idle_parts,
)
from plat.cli.entries import standing
from plat.cli.exit_codes import RUNS_FAILED
from plat.cli.missing_runs import conclude, distinct, make_home, run_missing
from plat.cli.notify import Notifier, NotifyOption
from plat.cli.place import OnOption, WaitOption, chosen_place, warn_of_machine
from plat.cli.settings import settings, verb
from plat.cli.table import fitted
from plat.cli.tune import names_search, plan_searches
from plat.cli.waiting import followed
from plat.errors import SpecError
from plat.store.home import Home
from plat.units import percent

if TYPE_CHECKING:
    from plat.dispatch.report import SweepReport
    from plat.spec.experiment import Experiment


@verb(reads_trainers=True)
def plan(
    arguments: Arguments = None,
    jobs: JobsOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show what would run, and what it costs.

    The matrix, what is done, running and missing, and the expected time. Writes nothing.
    """
    from plat.plan import make_plan
    from plat.plan.check import check_runs

    place = Home.find(home).checked()
    if names_search(arguments):
        return plan_searches(arguments, place)
    experiments = load_experiments(arguments, home=home)
    for experiment in experiments:
        reports.check_report(experiment)
    made = make_plan(experiments, place, jobs=jobs, standing=standing)
    not_done = [row.run for row in made.rows if row.state.state != "done"]
    check_runs(followed(not_done, "checking runs"))
    warn_of_machine(not_done, place)
    say_changed_code(distinct(experiments), place)
    warn_of_idle(distinct(experiments), split(arguments)[1])
    warn_of_idle_parts(experiments, split(arguments)[1])
    if as_json:
        print_json({"home": str(place.root), **made.to_json()})
    else:
        print(fitted(made.render(verbose=settings.verbose)))
        absent = "" if place.exists() else " (there is none yet, so no run is known; --home DIR names another)"
        print(f"home: {reports.shown(place.root)}{absent}")
    return 0


@verb(reads_trainers=True)
def sweep(
    arguments: Arguments = None,
    jobs: JobsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="The same as `plat plan`.")] = False,
    steal: StealOption = False,
    on: OnOption = "local",
    wait: WaitOption = None,
    notify: NotifyOption = None,
    home: HomeOption = None,
    store: StoreOption = None,
) -> int:
    """Run what is missing; print the report.

    Given again, it does nothing that is done; after Ctrl-C or a kill it goes on from there. On slurm it submits what is
    missing and returns; `plat status` and `plat report` follow.
    """
    from plat.plan.check import check_machine, check_runs, not_done

    target = chosen_place(arguments, on, wait)
    if dry_run:
        return plan(arguments, jobs, home)
    experiments = load_experiments(arguments, home=home)
    place = Home.find(home)
    uri = place.store_uri(store)
    printed = [freshness.recall(place, uri, experiment, reports.layout()) for experiment in experiments]
    if all(text is not None for text in printed):
        print("nothing to do: every run is done, and the report is up to date\n")
        print("\n".join(text for text in printed if text), end="")
        return 0
    runs = distinct(experiments)
    for experiment in experiments:
        reports.check_report(experiment)
        reports.check_reference(experiment)
    check_runs(followed(not_done(runs, place), "checking runs"))
    say_changed_code(runs, place)
    warn_of_idle(runs, split(arguments)[1])
    warn_of_idle_parts(experiments, split(arguments)[1])
    if target.is_here:
        check_machine(runs, place)
    make_home(place, uri, target)
    notifier = Notifier(notify, place, experiments)
    report = run_missing(
        place, uri, runs, experiments, jobs=jobs, steal=steal, target=target, on_ended=notifier.run_ended
    )
    are_whole = True
    if not report.interrupted and not (report.detached and report.counts().get("queued")):
        are_whole = _print_reports(place, uri, experiments, report)
    exit_code = conclude(report)
    if not are_whole:
        exit_code = exit_code or RUNS_FAILED
    notifier.sweep_ended(report, exit_code)
    return exit_code


def _print_reports(home: Home, uri: str, experiments: Sequence[Experiment], report: SweepReport) -> bool:
    """Make and print the report of each experiment; remember those that can be printed again as they are.

    False when a part of one could not be made.
    """
    are_whole = True
    for experiment in experiments:
        made = reports.make_report(home, uri, experiment)
        if made.whole and all(report.ends[run.id].state == "done" for run in experiment.runs):
            freshness.remember(home, uri, experiment, reports.layout(), made.printed, made.files)
        print(made.printed, end="")
        are_whole = are_whole and made.whole
    return are_whole


@verb(reads_trainers=True)
def run(
    context: typer.Context,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="The run's options.")] = None,
    steal: StealOption = False,
    home: HomeOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """One run, from overrides alone.

    Given again, it goes on where it was interrupted. For example: plat run task=sokoban algorithm=grpo seed=1
    """
    from plat.plan.check import check_machine, check_runs
    from plat.spec.experiment import build_run
    from plat.store.run_directory.files import read_result

    if not arguments:  # the options of a run: none of them can be guessed
        print(context.get_help())
        return SpecError.exit_code
    files, overrides = split(arguments)
    if files and files[0].exists():
        raise SpecError(f"`plat run` takes no file, and {files[0]} is one", mend=f"plat sweep {files[0]}")
    if files:
        key, _, value = str(files[0]).partition(":")
        raise SpecError(
            f"`plat run` takes options as KEY=VALUE, and {str(files[0])!r} has no =",
            where="the command line",
            mend=f"for example {key}={value or 'VALUE'}; a file is given to `plat sweep`",
        )
    made = build_run(overrides)
    warn_of_idle([made], overrides)
    place = Home.find(home)
    uri = place.store_uri(store)
    if not place.run(made.id).result.exists():  # what is done needs no check, which takes seconds
        check_runs([made])
        check_machine([made], place)
    make_home(place, uri)
    progress_to = sys.stderr if as_json else None  # stdout is for the JSON alone
    report = run_missing(place, uri, [made], jobs=1, steal=steal, progress_to=progress_to)
    result = read_result(place.run(made.id))
    if as_json:
        print_json({"id": made.id, "name": made.name, "result": result})
    elif result is not None:
        success = percent(result.get("success"))
        measured = f"success {success}" if success else "no success measured"
        print(f"{made.name}: {result['outcome']} at step {result.get('step')}, {measured}")
        print(f"  in {reports.shown(place.run(made.id).root)}; `plat why {made.id[:8]}` explains it")
    return conclude(report, "run")
