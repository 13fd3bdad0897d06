"""Do the missing runs, import them into the store and report how they ended. All verbs that run share this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from plat.app import importing
from plat.app.checking import check_asked, check_reference, check_report, warn_of_idle_parts, warn_of_needs
from plat.app.loading import is_cluster_argument
from plat.app.messages import stage
from plat.errors import StoreError
from plat.planning.cost import in_order
from plat.runner.failures import FINAL
from plat.store.home import Home
from plat.units import are, counted
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.dispatch.dispatcher import Dispatcher
    from plat.dispatch.feed import Source
    from plat.dispatch.progress import Progress
    from plat.dispatch.setting import Setting
    from plat.dispatch.sweep_ends import SweepReport
    from plat.spec.expansion.experiment import Experiment, Run
    from plat.store.run_directory.state import RunState


@dataclass(frozen=True)
class Place:
    """The place that executes the missing runs of a verb. It is no part of a run.

    on       the name of a dispatcher
    cluster  `cluster=NAME` and `cluster.KEY=VALUE`, with the path of the profile in place of its name
    detach   return as soon as the scheduler has the runs
    """

    on: str = "local"
    cluster: tuple[str, ...] = ()
    detach: bool = False

    @property
    def is_here(self) -> bool:
        """True when this machine executes the runs."""
        from plat.dispatch.registry import find_dispatcher

        return find_dispatcher(self.on).on_this_machine


HERE = Place()


@dataclass(frozen=True)
class Sweep:
    """Settings of a sweep.

    home, uri  the home of the runs, and the MLflow store
    target     the dispatcher and its settings
    jobs       runs at once; None: as many as the cores allow
    steal      also take over runs whose process cannot be checked
    """

    home: Home
    uri: str
    target: Place = HERE
    jobs: int | None = None
    steal: bool = False


def chosen_place(arguments: Sequence[str] | None, on: str, wait: bool | None) -> Place:
    """Return the place that a verb's options and arguments choose; `wait` None: the dispatcher's default.

    Raises SpecError for an unknown dispatcher, and for settings that it refuses.
    """
    from plat.dispatch.registry import find_dispatcher, located

    detach = find_dispatcher(on).detaches_by_default if wait is None else not wait
    given = [text for text in arguments or () if is_cluster_argument(text)]
    files = [Path(text) for text in arguments or () if text not in given and text.endswith((".yaml", ".yml"))]
    cluster = located(on, given, files)
    find_dispatcher(on).check_settings(cluster, detach)
    return Place(on, cluster, detach)


def check_sweep(sweep: Sweep, experiments: Sequence[Experiment], overrides: Sequence[str]) -> list[Run]:
    """Check the experiments and return their runs, each once, in the order of execution; warn about idle settings.

    Raises SpecError for a report entry, claim or run that cannot work, and if this machine is to execute the runs and
    cannot. Raises BundleError if the reference results are damaged.
    """
    runs = list({run.id: run for experiment in experiments for run in in_order(experiment)}.values())
    for experiment in experiments:
        check_report(experiment)
        check_reference(experiment)
    check_before(sweep, runs, overrides)
    warn_of_idle_parts(experiments, overrides)
    return runs


def first_missing(runs: list[Run], home: Home, number: int | None) -> list[Run]:
    """Return the first `number` runs that a sweep would execute, in their order; None: all runs."""
    if number is None:
        return runs
    from plat.store.many_runs import states

    stands = states(home, [run.id for run in runs])
    return [run for run in runs if not _has_ended(stands[run.id])][:number]


def _has_ended(state: RunState) -> bool:
    """Return True if a sweep does not execute the run again: it is done, or has failed for good."""
    return state.state == RunStatus.DONE or state.outcome in FINAL


def check_before(sweep: Sweep, runs: Sequence[Run], overrides: Sequence[str]) -> None:
    """Check the runs of a command that are not done; warn about what they need and is not there.

    Raises SpecError for a run that cannot work, and if this machine is to execute the runs and cannot.
    """
    from plat.planning.check import check_machine, not_done

    left = not_done(runs, sweep.home)
    check_asked(runs, left, sweep.home, overrides)
    warn_of_needs(left)
    if sweep.target.is_here:
        check_machine(left, sweep.home)


def make_home(sweep: Sweep) -> None:
    """Create the home if there is none, after the scheduler and the store were checked.

    If a check fails, nothing is created, and its SpecError, HomeError or StoreError is raised.
    """
    from plat.store.mlflow.server_check import check_artifacts

    if not sweep.home.exists():
        from plat.dispatch.registry import find_dispatcher
        from plat.store.mlflow.connect import check_store

        find_dispatcher(sweep.target.on).check_reachable(sweep.target.cluster)
        check_store(sweep.home.checked(), sweep.uri)
    check_artifacts(sweep.home, sweep.uri)
    sweep.home.create()


def run_missing(
    sweep: Sweep,
    runs: Sequence[Run] | Source,
    experiments: Sequence[Experiment] = (),
    *,
    retry: bool = False,
    fail_fast: bool = False,
    progress: Progress | None = None,
    on_ended: Callable[[Run], None] | None = None,
    opened: Callable[[Setting], Dispatcher] | None = None,
) -> SweepReport:
    """Create the home if needed, execute the runs that are not done, and import them as they end.

    Raises StoreError before anything runs if the store cannot be written to, and at the end if the last import fails.

    runs         a list, or a source that gives further runs as earlier ones end
    retry        also execute failed runs of the classes `plat.runner.failures.FINAL`; other failed runs always are
    fail_fast    start nothing more once the first runs fail in a way that the others will too
    progress     where progress is shown; by default on stdout, with a line for each start and end
    on_ended     called with every run that has ended, whatever its outcome
    opened       opens a dispatcher in place of the target's (see `plat.dispatch.driver.sweep`)
    """
    from plat.dispatch.driver import sweep as sweep_here
    from plat.dispatch.progress import choose
    from plat.dispatch.schedulers import ask_schedulers

    make_home(sweep)
    home, target = sweep.home, sweep.target
    ask_schedulers(home)
    progress = progress or choose()
    imports = importing.ImportAsTheyEnd(home, sweep.uri, experiments)

    def ended(run: Run) -> None:
        if on_ended is not None:
            on_ended(run)
        imports.add(run)

    report = sweep_here(
        home,
        runs,
        sweep.jobs,
        progress,
        on=target.on,
        cluster=target.cluster,
        detach=target.detach,
        experiments=experiments,
        before_runs=lambda: _prepare_store(sweep, progress),
        on_finished=ended,
        on_running=imports.refresh,
        steal=sweep.steal,
        retry=retry,
        fail_fast=fail_fast,
        opened=opened,
    )
    stage.dispatched = report.exit_code != 0
    known = [run.id for run in getattr(runs, "runs", ())]  # a search also has runs of earlier trials
    _import_rest(sweep, experiments, report, known)
    _note_removed(home, report)
    return report


def _prepare_store(sweep: Sweep, progress: Progress) -> None:
    """Check just before the first run starts that the store can be written to; StoreError otherwise."""
    database = sweep.home.database
    if sweep.uri == f"sqlite:///{database}" and not database.exists():
        progress.message("making the store, once for this home")
    open_store(sweep.home, sweep.uri)
    stage.dispatched = True
    if sweep.target.is_here:
        progress.message("starting workers")


def _import_rest(sweep: Sweep, experiments: Sequence[Experiment], report: SweepReport, known: Sequence[str]) -> None:
    """Import every run of a sweep, including runs that could not be imported earlier.

    Raises StoreError, which says how many runs are done, if the store fails.
    """
    try:
        run_ids = dict.fromkeys([*report.ends, *known])
        imported = importing.import_all(sweep.home, sweep.uri, experiments, map(sweep.home.run, run_ids))
    except StoreError as error:
        done = sum(end.state == RunStatus.DONE for end in report.ends.values())
        runs = f"{done} of {counted(len(report.ends), 'run')} {are(done)} done"
        what = f"{runs}, but the store could not be brought up to date: {error.what}"
        raise StoreError(what, where=error.where, fix=error.fix) from error
    report.import_failed = imported.exit_code != 0


def _note_removed(home: Home, report: SweepReport) -> None:
    """Mark a done run as missing if its directory was removed during the sweep."""
    for run_id, end in list(report.ends.items()):
        if end.state == RunStatus.DONE and not home.run(run_id).result.exists():
            reason = "its directory was removed during the sweep; the same command does it again"
            report.ends[run_id] = replace(end, state=RunStatus.MISSING, outcome=None, reason=reason)


def open_store(home: Home, uri: str) -> None:
    """Make the store if it is missing, and check that it can be written to; StoreError otherwise."""
    from plat.store.mlflow.connect import prepare_store
    from plat.store.mlflow.importer import import_lock

    with import_lock(home):
        prepare_store(uri)
