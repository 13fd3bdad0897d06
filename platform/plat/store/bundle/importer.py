"""A bundle -> runs of this home, and from there into its store (`plat import`).

The run directories are made again and then imported like any others, so that every verb takes the runs for what they
are: done. There is one way into MLflow.

Promised: everything is checked before anything is changed. The whole bundle is refused when one of its files is
damaged, or when one of its runs is here, or in the store, with other content; the error names the runs and what
differs. A run appears in the home whole, by a rename; after a kill in between, the same command brings the rest.
Importing a bundle again, or two bundles that share runs, changes nothing that is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from plat.errors import BundleError
from plat.store.bundle.format import EXPORT_AGAIN
from plat.store.bundle.reading import read_bundle
from plat.store.bundle.rows import runs_of
from plat.store.bundle.run import BundledRun, differences, read_run
from plat.store.bundle.staging import put_in_place, staged_runs
from plat.store.durable import fsync_folder, locked, to_checked_json, write
from plat.store.home import Home
from plat.store.mlflow.backend import Backend, Known, conflict
from plat.store.mlflow.connect import check_store, open_backend
from plat.store.mlflow.importer import Follow, ImportReport, as_they_are, import_lock, import_runs
from plat.store.mlflow.record import read_record
from plat.store.run_directory.files import read_meta
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.state import run_state

SHOWN = 5  # conflicts named in an error


@dataclass
class BundleReport:
    """What an import did: ids of runs that are `new` here, how many were here already, and what the store said; with
    the names and the overrides of the experiments that the bundle was exported from."""

    new: list[str] = field(default_factory=list)
    present: int = 0
    stored: ImportReport = field(default_factory=ImportReport)
    experiments: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)


def import_bundle(home: Home, uri: str, folder: Path, follow: Follow = as_they_are) -> BundleReport:
    """Bring the runs of a bundle into this home and its store.

    follow  goes through the runs of each step, and may say how far it is

    BundleError when the bundle is damaged or does not fit what is here; HomeError and StoreError when the home or the
    store cannot be used. In each case nothing was imported.
    """
    bundle = read_bundle(folder)
    runs = runs_of(bundle, folder)
    if not home.exists():
        check_store(home.checked(), uri)  # before the home is made: nothing is left behind where no store answers
    home.create()
    report = BundleReport()
    with import_lock(home), closing(open_backend(home, uri)) as backend:
        new = _new_runs(home, runs, folder)
        with staged_runs(home, follow(new, "writing runs")) as staged:
            _check_staged(follow(staged, "checking runs"), {run.id: run for run in new}, folder)
            _check_store(backend, staged, folder)
            for paths in staged:
                put_in_place(paths, home.run(paths.id))
                report.new.append(paths.id)
        for folder in {home.runs, *(home.run(run_id).root.parent for run_id in report.new)}:
            fsync_folder(folder)
        for run in runs:
            _note_experiments(home, home.run(run.id), run.meta.get("experiments", []))
    report.present = len(runs) - len(new)
    report.experiments, report.overrides = [entry["name"] for entry in bundle.experiments], bundle.overrides
    report.stored = import_runs(home, uri, runs=[home.run(run.id) for run in runs], follow=follow)
    return report


def _new_runs(home: Home, runs: Sequence[BundledRun], folder: Path) -> list[BundledRun]:
    """The runs that are to be made here; BundleError when some are here with other content, or unfinished."""
    new, conflicts = [], []
    for run in runs:
        paths = home.run(run.id)
        state = run_state(paths).state
        if state == "missing" and not paths.attempts():
            new.append(run)
        elif run.result is None:
            continue  # a failure is no result: whatever is here says more
        elif state == "done":
            own = read_run(paths)
            lines = differences(own, run) if own else ["its directory cannot be read"]
            conflicts += [f"{run.name}: {'; '.join(lines)}"] if lines else []
        else:
            conflicts.append(f"{run.name}: it is {state} here (finish it with `plat sweep`, or remove {paths.root})")
    _refuse(conflicts, len(runs), "in this home", folder)
    return new


def _check_staged(staged: Iterable[RunPaths], runs: Mapping[str, BundledRun], folder: Path) -> None:
    """BundleError unless each staged directory is the whole run that it should be, as every verb will read it."""
    for paths in staged:
        record = read_record(paths)
        problem = record.damage if record else "its meta.json or config.yaml cannot be read"
        wanted = "failed" if runs[paths.id].result is None else "done"
        if not problem and run_state(paths).state != wanted:
            problem = f"it would not be {wanted} here"
        if problem:
            raise BundleError(
                f"run {paths.id!r} of the bundle is damaged: {problem}", where=str(folder), mend=EXPORT_AGAIN
            )


def _check_store(backend: Backend, staged: Sequence[RunPaths], folder: Path) -> None:
    """BundleError when the store holds one of these runs with other content, although the home does not."""
    known: dict[str, Known] = backend.known([paths.id for paths in staged])
    conflicts = []
    for paths in staged:
        have = known.get(paths.id)
        if have is None or have.deleted:
            continue
        record = read_record(paths)
        difference = conflict(record, backend.stored(have)) if record else "it cannot be read"
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
        mend="import the bundle into a home of its own, with --home DIR",
    )


def _note_experiments(home: Home, paths: RunPaths, names: Sequence[str]) -> None:
    """Add experiments to those that asked for a run that was here already."""
    with locked(home.meta_lock):
        meta = read_meta(paths)
        if not set(names) <= set(meta["experiments"]):
            meta["experiments"] = list(dict.fromkeys([*meta["experiments"], *names]))
            write(paths.meta, to_checked_json(meta))
