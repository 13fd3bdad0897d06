"""What every verb that runs shares: runs that are missing are done, brought into the store, and summed up."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from plat.cli import importing
from plat.cli.place import Place
from plat.cli.settings import settings
from plat.cli.table import table
from plat.errors import StoreError
from plat.store.home import Home
from plat.store.provenance.repository import RECORD_DIFF
from plat.switches import is_on
from plat.units import are, counted

if TYPE_CHECKING:
    from plat.dispatch.progress import Progress
    from plat.dispatch.report import RunEnd, SweepReport
    from plat.dispatch.source import Source
    from plat.spec.experiment import Experiment, Run

HERE = Place()


def distinct(experiments: Sequence[Experiment]) -> list[Run]:
    """Every run that some file asks for, once, in the order asked for."""
    return list({run.id: run for experiment in experiments for run in experiment.runs}.values())


def make_home(home: Home, uri: str, target: Place = HERE) -> None:
    """Make the home where there is none yet, after the scheduler and the store have answered: where one of them does
    not, nothing is left behind. Nor where a switch of the environment is neither on nor off."""
    is_on(RECORD_DIFF)
    if not home.exists():
        from plat.dispatch.registry import check_reachable
        from plat.store.mlflow.connect import check_store

        check_reachable(target.on, target.cluster)
        check_store(home.checked(), uri)
    home.create()


def run_missing(
    home: Home,
    uri: str,
    runs: Sequence[Run] | Source,
    experiments: Sequence[Experiment] = (),
    *,
    jobs: int | None = None,
    steal: bool = False,
    retry: bool = False,
    target: Place = HERE,
    progress_to: TextIO | None = None,
    on_ended: Callable[[Run], None] | None = None,
) -> SweepReport:
    """Do what is missing, here or where `target` says, bringing the store up to date run by run. StoreError before
    anything runs.

    runs         a list, or a source that gives further runs as earlier ones end
    progress_to  where progress goes, stdout by default
    on_ended     called with every run that has ended, whatever became of it
    """
    from plat.dispatch.driver import sweep as sweep_here
    from plat.dispatch.progress import choose
    from plat.dispatch.schedulers import ask_schedulers

    ask_schedulers(home)
    progress = choose(progress_to)
    imports = importing.ImportAsTheyEnd(home, uri, experiments)

    def ended(run: Run) -> None:
        if on_ended is not None:
            on_ended(run)
        imports.add(run)

    report = sweep_here(
        home,
        runs,
        jobs,
        progress,
        on=target.on,
        cluster=target.cluster,
        detach=target.detach,
        experiments=experiments,
        before_runs=lambda: _prepare_store(home, uri, target, progress),
        on_finished=ended,
        steal=steal,
        retry=retry,
    )
    settings.dispatched = report.exit_code != 0
    known = [run.id for run in getattr(runs, "runs", ())]  # a search knows runs of earlier trials, too
    _import_rest(home, uri, experiments, report, known)
    _note_removed(home, report)
    return report


def _prepare_store(home: Home, uri: str, target: Place, progress: Progress) -> None:
    """Make sure that the store can be written to, just before the first run starts; StoreError otherwise."""
    if uri == f"sqlite:///{home.database}" and not home.database.exists():
        progress.message("making the store, once for this home")
    open_store(home, uri)
    settings.dispatched = True
    if target.is_here:
        progress.message("starting workers")


def _import_rest(
    home: Home, uri: str, experiments: Sequence[Experiment], report: SweepReport, known: Sequence[str]
) -> None:
    """Bring the store up to date with every run of a sweep, those included that could not be imported meanwhile."""
    try:
        run_ids = dict.fromkeys([*report.ends, *known])
        imported = importing.import_all(home, uri, experiments, map(home.run, run_ids))
    except StoreError as error:
        raise _store_gave_way(error, report) from error
    report.import_failed = imported.exit_code != 0


def _note_removed(home: Home, report: SweepReport) -> None:
    """Call runs missing whose directory somebody has removed since they were done."""
    for run_id, end in list(report.ends.items()):
        if end.state == "done" and not home.run(run_id).result.exists():
            reason = "its directory was removed during the sweep; the same command does it again"
            report.ends[run_id] = replace(end, state="missing", outcome=None, reason=reason)


def _store_gave_way(error: StoreError, report: SweepReport) -> StoreError:
    """What to say when the store went away while runs went on: how they ended. The mend says that nothing is lost."""
    done = sum(end.state == "done" for end in report.ends.values())
    return StoreError(
        f"{done} of {counted(len(report.ends), 'run')} {are(done)} done, "
        f"but the store could not be brought up to date: {error.what}",
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


def conclude(report: SweepReport, verb: str = "sweep") -> int:
    """Say what did not go well, and give the exit code; `verb` goes on with runs that were stopped."""
    settings.concluded = True
    for line in report.trouble:
        print(f"warning: {line}", file=sys.stderr)
    total = counted(len(report.ends), "run")
    queued = [end for end in report.ends.values() if end.state == "queued"]
    bad = [end for end in report.ends.values() if end.state not in ("done", "queued" if report.detached else "done")]
    if report.detached and queued:
        print(
            f"{len(queued)} of {total} {are(len(queued))} with the scheduler ({places(queued)}); this command may end"
        )
        print(
            "`plat status` shows how they are, `plat report` what there is, and the same command submits what is left"
        )
    if report.interrupted:
        done = len(report.ends) - len(bad)
        rest = "; the same command goes on from here" if bad else ""
        print(f"interrupted: {done} of {total} {are(done)} done{rest}")
    elif bad:
        print(f"\n{len(bad)} of {total} {are(len(bad))} not done:", file=sys.stderr)
        rows = [(end.run.name, end.outcome or end.state, " ".join(end.reason.split())) for end in bad[:20]]
        print(table(("run", "outcome", "reason"), rows), file=sys.stderr)
        if len(bad) > len(rows):
            print(f"  and {len(bad) - len(rows)} more: `plat status` lists them", file=sys.stderr)
        print("\n".join(_how_to_go_on(bad, verb)), file=sys.stderr)
    return report.exit_code


def _how_to_go_on(bad: Sequence[RunEnd], verb: str) -> list[str]:
    """Which commands go on with runs that are not done: not the same for one that failed and one that was stopped."""
    states = {end.state for end in bad}
    lines = ["`plat logs RUN` shows what a run said, `plat retry` tries again"] if "failed" in states else []
    if states & {"interrupted", "missing"}:
        which = "those that were stopped or did not start" if "failed" in states else "them"
        lines.append(f"the next `plat {verb}` goes on with {which}")
    return lines or ["`plat why RUN` says what is known of a run"]


def places(queued: Sequence[RunEnd]) -> str:
    """The jobs that have these runs, in words: "jobs 12, 13 on lab"."""
    jobs = sorted({end.reason.partition("_")[0] for end in queued})
    return ", ".join(jobs[:5]) + (f" and {len(jobs) - 5} more" if len(jobs) > 5 else "")
