"""Verbs that plan and run: `plat plan`, `plat sweep`, `plat run`, `plat retry`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plat.cli import freshness, results
from plat.cli.common import (
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
from plat.errors import PlatError, SpecError, StoreError
from plat.store.home import Home, RunPaths

if TYPE_CHECKING:
    from plat.dispatch.report import SweepReport
    from plat.spec.experiment import Experiment, Run

JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Runs at once [as many as the cores allow].")
]
StealOption = Annotated[bool, typer.Option("--steal", help="Take over runs whose owner cannot be asked.")]
WhereOption = Annotated[
    list[str] | None, typer.Option("--where", metavar="AXIS=VALUE", help="Only runs with this axis value; repeatable.")
]
IMPORT_TIMEOUT = 2.0  # seconds to wait for a locked store meanwhile: no run starts while we wait
IMPORT_EVERY = 5.0  # seconds between imports while runs go on: the cores belong to the runs


def plan(
    arguments: Arguments = None,
    jobs: JobsOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Show what would run, and what it costs.

    The matrix, what is done, running and missing, and the expected time. Writes nothing.
    """
    from plat.plan import make_plan

    experiments = load_experiments(arguments)
    for experiment in experiments:
        results.check_report(experiment)
    made = make_plan(experiments, Home.find(home), jobs=jobs)
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
    verbose: VerboseOption = False,
) -> int:
    """Run what is missing; print the report.

    Given again, it does nothing that is done; after Ctrl-C or a kill it goes on from there.
    """
    if dry_run:
        return plan(arguments, jobs, home, False, verbose)
    experiments = load_experiments(arguments)
    place = Home.find(home)
    uri = place.store_uri(store)
    look = results.look()
    printed = [freshness.recall(place, uri, experiment, look) for experiment in experiments]
    if all(text is not None for text in printed):
        print("nothing to do: every run is done, and the report is up to date\n")
        print("\n".join(text for text in printed if text), end="")
        return 0
    for experiment in experiments:
        results.check_report(experiment)
    place.create()
    report = run_missing(place, uri, distinct(experiments), experiments, jobs=jobs, steal=steal)
    if not report.interrupted:
        for experiment in experiments:
            text, files = results.make_report(place, uri, experiment)
            if all(report.ends[run.id].state == "done" for run in experiment.runs):
                freshness.remember(place, uri, experiment, look, text, files)
            print(text, end="")
    return conclude(report)


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
) -> SweepReport:
    """Do what is missing on this machine, bringing the store up to date run by run. StoreError before anything runs."""
    from plat.dispatch.driver import sweep as sweep_here
    from plat.dispatch.progress import choose
    from plat.store.importer import import_runs

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

    open_store(home, uri)
    settings.dispatched = True
    report = sweep_here(
        home,
        runs,
        jobs,
        choose(),
        experiments=experiments,
        on_finished=bring_in,
        steal=steal,
        retry=retry,
    )
    settings.dispatched = report.exit_code != 0
    try:
        brought = results.import_all(home, uri, experiments, [home.run(run.id) for run in runs])
        report.import_failed = brought.exit_code != 0
    except StoreError as error:
        raise _store_gave_way(error, report) from error
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
    from plat.store.connect import open_backend
    from plat.store.importer import import_lock

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
    arguments: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="The run's options.")] = None,
    home: HomeOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> int:
    """One run, from overrides alone.

    For example: plat run task=sokoban algorithm=grpo seed=1
    """
    from plat.spec.experiment import build_run
    from plat.store.run_files import read_result

    files, overrides = split(arguments)
    if files:
        raise SpecError(f"`plat run` takes no file, and {files[0]} is one", mend=f"plat sweep {files[0]}")
    one = build_run(overrides)
    place = Home.find(home).create()
    report = run_missing(place, place.store_uri(store), [one], jobs=1)
    result = read_result(place.run(one.id))
    if as_json:
        print_json({"id": one.id, "name": one.name, "result": result})
    elif result is not None:
        print(f"{one.name}: {result['outcome']} at step {result.get('step')}, {results.percent(result.get('success'))}")
        print(f"  in {results.shown(place.run(one.id).root)}; `plat why {one.id[:8]}` explains it")
    return conclude(report)


def retry(
    arguments: Arguments = None,
    where: WhereOption = None,
    jobs: JobsOption = None,
    steal: StealOption = False,
    home: HomeOption = None,
    store: StoreOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Run failed runs again.

    Those of the named files, or all of this home.
    """
    from plat.store.run_state import run_state

    wanted = _conditions(where)
    experiments = load_experiments(arguments, required=False)
    place = Home.find(home)
    runs = distinct(experiments) if experiments else _runs_of(place)
    axes = sorted({axis for run in runs for axis in run.axes})
    for axis in wanted:
        if runs and axis not in axes:
            raise SpecError(f"no run has an axis {axis!r}", where="--where", mend=f"one of: {', '.join(axes)}")
    chosen = [
        run
        for run in runs
        if all(str(run.axes.get(axis)) == value for axis, value in wanted.items())
        and run_state(place.run(run.id)).state == "failed"
    ]
    if not chosen:
        print("no failed run to try again")
        return 0
    place.create()
    return conclude(run_missing(place, place.store_uri(store), chosen, experiments, jobs=jobs, steal=steal, retry=True))


def _conditions(where: Sequence[str] | None) -> dict[str, str]:
    found = {}
    for text in where or ():
        axis, sign, value = text.partition("=")
        if not sign:
            raise SpecError(f"--where takes AXIS=VALUE, not {text!r}", mend="for example --where task=sokoban")
        found[axis] = value
    return found


def _runs_of(home: Home) -> list[Run]:
    """The runs of this home's directories; a directory that cannot be read is left out, with a warning."""
    runs = []
    for folder in sorted(home.runs.iterdir()) if home.runs.is_dir() else ():
        try:
            runs.append(_run_in(home.run(folder.name)))
        except PlatError as error:
            print(f"warning: {error.what} ({error.where})", file=sys.stderr)
    return runs


def _run_in(paths: RunPaths) -> Any:
    """The run of a directory."""
    from plat.spec.experiment import Run
    from plat.store.run_files import read_config, read_meta

    meta = read_meta(paths)
    prepare = tuple(meta["prepare"]) if meta.get("prepare") else None
    return Run(
        meta["id"], meta["name"], meta["axes"], meta["trainer"], read_config(paths), prepare, meta.get("resources", {})
    )
