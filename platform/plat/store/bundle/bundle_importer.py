"""Import a bundle (`plat import`): create its run directories in this home, then import them into the store.

Everything is checked before the home's runs or the store change. A bundle is refused if a file is damaged, or if the
home or the store has one of its runs with other content. Each run appears in the home by one rename; after a kill, the
same command imports the rest. Importing a bundle again, or two bundles that share runs, keeps existing runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from plat.errors import BundleError, HomeError, os_errors_as
from plat.store.bundle.bundle_frames import runs_of
from plat.store.bundle.format import damaged
from plat.store.bundle.reading import read_bundle
from plat.store.bundle.run import BundledRun, differences, read_run, write_run
from plat.store.disk.durable import fsync_folder, locked, to_checked_json, write
from plat.store.home import Home
from plat.store.measured import Measured, conflict, decode
from plat.store.mlflow.artifacts import read_artifact
from plat.store.mlflow.connect import check_store
from plat.store.mlflow.importer import Follow, ImportReport, as_they_are, import_lock, import_runs
from plat.store.mlflow.plan_record import keep_plans, plan_of
from plat.store.mlflow.run_record import read_record
from plat.store.mlflow.stored_runs import stored_runs
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import read_meta
from plat.store.run_directory.state import run_state
from plat.words.states import RunStatus

SHOWN = 5  # conflicts named in an error
SCRATCH = ".tmp-bundle"  # in the home; used under the import lock, so an existing one is left from a killed import


@dataclass
class BundleReport:
    """The result of an import."""

    new: list[str] = field(default_factory=list)  # ids of runs that were added to the home
    present: int = 0  # number of the bundle's other runs, which the home already had
    stored: ImportReport = field(default_factory=ImportReport)  # report of the import into the store
    experiments: list[str] = field(default_factory=list)  # names of the exported experiments
    overrides: list[str] = field(default_factory=list)  # overrides of the command line at the export


def import_bundle(
    home: Home, uri: str, folder: Path, follow: Follow = as_they_are, *, curves: bool = False
) -> BundleReport:
    """Import the runs of the bundle in `folder` into this home, created if absent, and the MLflow store at `uri`.

    follow  wraps the items of each step to show its progress; the default shows nothing
    curves  mirror the steps of metrics in MLflow's tables, not only their last values

    Runs that the home has already are kept. A run that failed in the bundle never conflicts with one in the home.
    Raises BundleError, and imports nothing, if the bundle is damaged, if a run with a result in the bundle is
    unfinished, failed or different in the home, or if the store has other content for a run that the home lacks. The
    report's `stored` lists what else differs in the store. Raises HomeError or StoreError if the home or the store
    cannot be used; the same call later imports the rest.
    """
    bundle = read_bundle(folder)
    runs = runs_of(bundle, folder)
    if not home.exists():
        check_store(home.checked(), uri)  # before `create`: no home is left behind if no store answers
    home.create()
    report = BundleReport()
    with import_lock(home):
        new = _new_runs(home, runs, folder)
        with _staged_runs(home, follow(new, "writing runs")) as staged:
            _check_staged(follow(staged, "checking runs"), {run.id: run for run in new}, folder)
            _check_store(home, uri, staged, folder)
            for paths in staged:
                _put_in_place(paths, home.run(paths.id))
                report.new.append(paths.id)
        for folder in {home.runs, *(home.run(run_id).root.parent for run_id in report.new)}:
            fsync_folder(folder)
        for run in runs:
            _note_experiments(home, home.run(run.id), run.meta.get("experiments", []))
    report.present = len(runs) - len(new)
    report.experiments, report.overrides = [entry["name"] for entry in bundle.experiments], bundle.overrides
    report.stored = import_runs(home, uri, runs=[home.run(run.id) for run in runs], follow=follow, curves=curves)
    for entry in bundle.experiments:
        if entry.get("plans"):
            keep_plans(home, uri, entry["name"], [plan_of(plan) for plan in entry["plans"]])
    return report


def _new_runs(home: Home, runs: Sequence[BundledRun], folder: Path) -> list[BundledRun]:
    """Return the runs that the home lacks; raises BundleError if it has some unfinished or with other content."""
    new, conflicts = [], []
    for run in runs:
        paths = home.run(run.id)
        state = run_state(paths).state
        if state == RunStatus.MISSING and not paths.attempts():
            new.append(run)
        elif run.result is None:
            continue  # a failure is no result: the run here is kept
        elif state == RunStatus.DONE:
            own = read_run(paths)
            lines = differences(own, run) if own else ["its directory cannot be read"]
            conflicts += [f"{run.name}: {'; '.join(lines)}"] if lines else []
        else:
            conflicts.append(f"{run.name}: it is {state} here (finish it with `plat sweep`, or remove {paths.root})")
    _refuse(conflicts, len(runs), "in this home", folder)
    return new


@contextmanager
def _staged_runs(home: Home, runs: Iterable[BundledRun]) -> Iterator[list[RunPaths]]:
    """Write run directories into a scratch folder of the home; the block gets their paths, in the order of `runs`.

    After the block, delete the scratch folder with all directories that the block has not moved. Raises HomeError if a
    run cannot be written.
    """
    scratch = home.root / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    fix = "fix the permissions or free some disk space, and give the same command again; nothing was imported"
    try:
        staged = []
        with os_errors_as(HomeError, "the runs of the bundle could not be written", home.root, fix):
            for run in runs:
                staged.append(RunPaths(scratch / run.id))
                write_run(run, staged[-1])
        yield staged
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _put_in_place(staged: RunPaths, target: RunPaths) -> None:
    """Rename a staged run to `target`; first move a directory that is there into the scratch folder.

    The caller passes only targets that have no attempts. Raises HomeError if the renaming fails.
    """
    fix = "give the same command again; it keeps the runs that are already imported"
    with os_errors_as(HomeError, "a run of the bundle could not be moved into the home", target.root, fix):
        if target.root.exists():
            os.rename(target.root, staged.root.with_name(f"{staged.id}.replaced"))
        target.root.parent.mkdir(exist_ok=True)
        os.rename(staged.root, target.root)


def _check_staged(staged: Iterable[RunPaths], runs: Mapping[str, BundledRun], folder: Path) -> None:
    """Raise BundleError unless each staged directory reads as an undamaged run with the state of the bundle's run."""
    for paths in staged:
        record = read_record(paths)
        problem = record.damage if record else "its meta.json or config.yaml cannot be read"
        wanted = "failed" if runs[paths.id].result is None else "done"
        if not problem and run_state(paths).state != wanted:
            problem = f"its state in this home would not be {wanted!r}"
        if problem:
            raise damaged(f"run {paths.id!r} of the bundle is damaged: {problem}", folder)


def _check_store(home: Home, uri: str, staged: Sequence[RunPaths], folder: Path) -> None:
    """Raise BundleError if the store has one of these runs, which the home lacks, with other content."""
    known = stored_runs(home, uri, [paths.id for paths in staged])
    conflicts = []
    for paths in staged:
        have = known.get(paths.id)
        if have is None or have.deleted or not have.measured:
            continue
        record, stored = read_record(paths), read_artifact(home, uri, have)
        if record is None or not isinstance(stored, Measured):
            difference = "it cannot be read"
        else:
            difference = conflict(decode(record.measured), stored)
        if difference:
            conflicts.append(f"{paths.id}: {difference}")
    _refuse(conflicts, len(staged), "in the store", folder)


def _refuse(conflicts: Sequence[str], total: int, where: str, folder: Path) -> None:
    if not conflicts:
        return
    shown = [f"\n       {line}" for line in conflicts[:SHOWN]]
    rest = f"\n       and {len(conflicts) - SHOWN} more" if len(conflicts) > SHOWN else ""
    raise BundleError(
        f"{len(conflicts)} of the bundle's {total} runs are {where} with other content; nothing was imported:"
        + "".join(shown)
        + rest,
        where=str(folder),
        fix="import the bundle into another home, with --home DIR",
    )


def _note_experiments(home: Home, paths: RunPaths, names: Sequence[str]) -> None:
    """Add experiment names to those in the run's meta.json, under the home's meta lock."""
    with locked(home.meta_lock):
        meta = read_meta(paths)
        if not set(names) <= set(meta["experiments"]):
            meta["experiments"] = list(dict.fromkeys([*meta["experiments"], *names]))
            write(paths.meta, to_checked_json(meta))
