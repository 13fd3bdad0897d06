"""Verbs that plan and run: `plat plan`, `plat sweep`, `plat run`; and what every verb that runs shares."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from plat.cli import freshness, importing, reports
from plat.cli.common import (
    AllowImportOption,
    Arguments,
    HomeOption,
    JsonOption,
    StoreOption,
    VerboseOption,
    aligned,
    load_experiments,
    print_json,
    settings,
    split,
)
from plat.cli.exit_codes import RUNS_FAILED
from plat.errors import SpecError, StoreError
from plat.store.home import Home, RunPaths

if TYPE_CHECKING:
    from plat.dispatch.report import SweepReport
    from plat.spec.experiment import Experiment, Run

JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Runs at once [as many as the cores allow].")
]
StealOption = Annotated[bool, typer.Option("--steal", help="Take over runs whose owner cannot be asked.")]
IMPORT_TIMEOUT = 2.0  # seconds to wait for a locked store meanwhile: no run starts while we wait
IMPORT_EVERY = 5.0  # seconds between imports while runs go on: the cores belong to the runs


def plan(
    arguments: Arguments = None,
    jobs: JobsOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
    allow_import: AllowImportOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Show what would run, and what it costs.

    The matrix, what is done, running and missing, and the expected time. Writes nothing.
    """
    from plat.plan import make_plan

    experiments = load_experiments(arguments)
    for experiment in experiments:
        reports.check_report(experiment)
    made = make_plan(experiments, Home.find(home).checked(), jobs=jobs)
    if as_json:
        print_json(made.to_json())
    else:
        print(made.render(verbose=verbose))
    return 0


def sweep(
    arguments: Arguments = None,
    jobs: JobsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="The same as `plat plan`.")] = False,
    steal: StealOption = False,
    home: HomeOption = None,
    store: StoreOption = None,
    allow_import: AllowImportOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Run what is missing; print the report.

    Given again, it does nothing that is done; after Ctrl-C or a kill it goes on from there.
    """
    if dry_run:
        return plan(arguments, jobs, home)
    experiments = load_experiments(arguments)
    place = Home.find(home)
    uri = place.store_uri(store)
    layout = reports.layout()
    printed = [freshness.recall(place, uri, experiment, layout) for experiment in experiments]
    if all(text is not None for text in printed):
        print("nothing to do: every run is done, and the report is up to date\n")
        print("\n".join(text for text in printed if text), end="")
        return 0
    for experiment in experiments:
        reports.check_report(experiment)
    place.create()
    report = run_missing(place, uri, distinct(experiments), experiments, jobs=jobs, steal=steal)
    whole = True
    if not report.interrupted:
        for experiment in experiments:
            made = reports.make_report(place, uri, experiment)
            if made.whole and all(report.ends[run.id].state == "done" for run in experiment.runs):
                freshness.remember(place, uri, experiment, layout, made.printed, made.files)
            print(made.printed, end="")
            whole = whole and made.whole
    exit_code = conclude(report)
    return exit_code if whole else exit_code or RUNS_FAILED


def distinct(experiments: Sequence[Experiment]) -> list[Run]:
    """Every run that some file asks for, once, in the order asked for."""
    return list({run.id: run for experiment in experiments for run in experiment.runs}.values())


def run_missing(
    home: Home,
    uri: str,
    runs: Sequence[Run],
    experiments: Sequence[Experiment] = (),
    *,
    jobs: int | None = None,
    steal: bool = False,
    retry: bool = False,
    progress_to: TextIO | None = None,
) -> SweepReport:
    """Do what is missing on this machine, bringing the store up to date run by run. StoreError before anything runs.

    Progress goes to stdout, unless another stream is given.
    """
    from plat.dispatch.driver import sweep as sweep_here
    from plat.dispatch.progress import choose
    from plat.store.mlflow.importer import import_runs

    waiting: list[RunPaths] = []
    imported = time.monotonic()

    def bring_in(run: Run) -> None:
        nonlocal imported
        waiting.append(home.run(run.id))
        if time.monotonic() - imported >= IMPORT_EVERY:
            try:
                import_runs(home, uri, experiments, waiting, timeout=IMPORT_TIMEOUT)
                waiting.clear()  # else they are tried again with the next ones
            finally:
                imported = time.monotonic()

    progress = choose(progress_to)

    def check_store() -> None:
        if uri == f"sqlite:///{home.database}" and not home.database.exists():
            progress.message("making the store, once for this home")
        open_store(home, uri)
        settings.dispatched = True
        progress.message("starting workers")

    report = sweep_here(
        home,
        runs,
        jobs,
        progress,
        experiments=experiments,
        before_runs=check_store,
        on_finished=bring_in,
        steal=steal,
        retry=retry,
    )
    settings.dispatched = report.exit_code != 0
    try:
        brought = importing.import_all(home, uri, experiments, [home.run(run.id) for run in runs])
        report.import_failed = brought.exit_code != 0
    except StoreError as error:
        raise _store_gave_way(error, report) from error
    for run in runs:
        end = report.ends[run.id]
        if end.state == "done" and not home.run(run.id).result.exists():
            reason = "its directory was removed during the sweep; the same command does it again"
            report.ends[run.id] = replace(end, state="missing", outcome=None, reason=reason)
    return report


def _store_gave_way(error: StoreError, report: SweepReport) -> StoreError:
    """What to say when the store went away while runs went on: how they ended. The mend says that nothing is lost."""
    done = sum(end.state == "done" for end in report.ends.values())
    return StoreError(
        f"{done} of {len(report.ends)} runs are done, but the store could not be brought up to date: {error.what}",
        where=error.where,
        mend=error.mend,
    )


def open_store(home: Home, uri: str) -> None:
    """Make sure, before any run starts, that the store can be written to; StoreError otherwise."""
    from plat.store.mlflow.connect import open_backend
    from plat.store.mlflow.importer import import_lock

    with import_lock(home):
        backend = open_backend(home, uri)
        try:
            backend.check()
        finally:
            backend.close()


def conclude(report: SweepReport) -> int:
    """Say what did not go well, and give the exit code."""
    settings.concluded = True
    for line in report.trouble:
        print(f"warning: {line}", file=sys.stderr)
    bad = [end for end in report.ends.values() if end.state != "done"]
    if report.interrupted:
        done = len(report.ends) - len(bad)
        print(f"interrupted: {done} of {len(report.ends)} runs are done; the same command goes on from here")
    elif bad:
        print(f"\n{len(bad)} of {len(report.ends)} runs are not done:", file=sys.stderr)
        rows = [(end.run.name, end.outcome or end.state, " ".join(end.reason.split())) for end in bad[:20]]
        print(aligned(rows), file=sys.stderr)
        if len(bad) > len(rows):
            print(f"  and {len(bad) - len(rows)} more: `plat status` lists them", file=sys.stderr)
        print("`plat logs RUN` shows what a run said, `plat retry` tries again", file=sys.stderr)
    return report.exit_code


def run(
    context: typer.Context,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="The run's options.")] = None,
    home: HomeOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    allow_import: AllowImportOption = False,
    verbose: VerboseOption = False,
) -> int:
    """One run, from overrides alone.

    For example: plat run task=sokoban algorithm=grpo seed=1
    """
    from plat.spec.experiment import build_run
    from plat.store.run_directory.files import read_result

    if not arguments:  # the options of a run: none of them can be guessed
        print(context.get_help())
        return SpecError.exit_code
    files, overrides = split(arguments)
    if files:
        raise SpecError(f"`plat run` takes no file, and {files[0]} is one", mend=f"plat sweep {files[0]}")
    made = build_run(overrides)
    place = Home.find(home).create()
    progress_to = sys.stderr if as_json else None  # stdout is for the JSON alone
    report = run_missing(place, place.store_uri(store), [made], jobs=1, progress_to=progress_to)
    result = read_result(place.run(made.id))
    if as_json:
        print_json({"id": made.id, "name": made.name, "result": result})
    elif result is not None:
        print(
            f"{made.name}: {result['outcome']} at step {result.get('step')}, {reports.percent(result.get('success'))}"
        )
        print(f"  in {reports.shown(place.run(made.id).root)}; `plat why {made.id[:8]}` explains it")
    return conclude(report)
