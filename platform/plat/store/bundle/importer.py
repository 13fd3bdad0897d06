"""A bundle -> runs of this home, and from there into its store (`plat import`).

The run directories are made again and then imported like any others, so that every verb takes the runs for what they
are: done. There is one way into MLflow.

Promised: everything is checked before anything is changed. The whole bundle is refused when one of its files is
damaged, or when one of its runs is here, or in the store, with other content; the error names the runs and what
differs. A run appears in the home whole, by a rename; after a kill in between, the same command brings the rest.
Importing a bundle again, or two bundles that share runs, changes nothing that is there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import BundleError, HomeError
from plat.store.bundle.format import Bundle, read_bundle
from plat.store.bundle.run import BundledRun, config_of, differences, read_run, write_run
from plat.store.durable import fsync_folder, locked, to_checked_json, write
from plat.store.home import Home, RunPaths
from plat.store.mlflow.backend import Backend, Known, conflict
from plat.store.mlflow.connect import open_backend
from plat.store.mlflow.importer import ImportReport, import_lock, import_runs
from plat.store.mlflow.record import read_record
from plat.store.run_directory.files import read_meta
from plat.store.run_directory.history import Metric, Table
from plat.store.run_directory.state import run_state

if TYPE_CHECKING:
    import pyarrow

SCRATCH = ".tmp-bundle"  # in the home; used under the import lock, so an old one is of an import that was killed
SHOWN = 5  # conflicts named in an error
_RUN_ID = re.compile(r"[0-9a-f]{8,64}")
_NO_PLACE = "mend the permissions or free some disk space, and give the same command again; nothing was imported"


@dataclass
class BundleReport:
    """What an import did: ids of runs that are `new` here, how many were here already, and what the store said."""

    new: list[str] = field(default_factory=list)
    present: int = 0
    stored: ImportReport = field(default_factory=ImportReport)


def import_bundle(home: Home, uri: str, folder: Path) -> BundleReport:
    """Bring the runs of a bundle into this home and its store.

    BundleError when the bundle is damaged or does not fit what is here; HomeError and StoreError when the home or the
    store cannot be used. In each case nothing was imported.
    """
    runs = runs_of(read_bundle(folder), folder)
    home.create()
    report = BundleReport()
    with import_lock(home), closing(open_backend(home, uri)) as backend:
        new = _new_runs(home, runs, folder)
        with _staged(home, new) as staged:
            _check_store(backend, staged, folder)
            for paths in staged:
                _move(paths, home.run(paths.id))
                report.new.append(paths.id)
        fsync_folder(home.runs)
        for run in runs:
            _note_experiments(home, home.run(run.id), run.meta.get("experiments", []))
    report.present = len(runs) - len(new)
    report.stored = import_runs(home, uri, runs=[home.run(run.id) for run in runs])
    return report


def runs_of(bundle: Bundle, folder: Path) -> list[BundledRun]:
    """The runs of a bundle; BundleError when a row cannot be a run."""
    metrics = _by_run(bundle.tables["metrics"], lambda row: Metric(*row))
    tables = _by_run(bundle.tables["tables"], lambda row: Table(row[0], row[1], json.loads(row[3]), row[2]))
    runs = []
    for row in bundle.tables["runs"].to_pylist():
        try:
            runs.append(_run(row, metrics, tables))
        except (ValueError, TypeError, KeyError) as error:
            raise BundleError(
                f"run {row.get('run_id')!r} of the bundle cannot be read: {error}",
                where=str(folder),
                mend="export it again",
            ) from error
    return runs


def _run(row: dict[str, Any], metrics: dict[str, list[Metric]], tables: dict[str, list[Table]]) -> BundledRun:
    run_id = str(row["run_id"])
    run = BundledRun(
        meta=_object(row["meta"]),
        config=row["config"],
        code=row["code"],
        diff=row["diff"],
        diff_sha256=row["code_diff_sha256"],
        result=None if row["result"] is None else _object(row["result"]),
        attempt=int(row["attempt"]),
        attempt_meta=_object(row["attempt_meta"]),
        attempt_outcome=_object(row["attempt_outcome"]),
        metrics=metrics.get(run_id, []),
        tables=tables.get(run_id, []),
    )
    if not _RUN_ID.fullmatch(run_id) or run.id != run_id:
        raise ValueError("its id is not a run's")
    if run.meta.get("config_sha256") not in (None, config_of(run)):
        raise ValueError("its config is not the one its meta.json names")
    return run


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("a JSON object is expected")
    return value


def _by_run(table: pyarrow.Table, make: Any) -> dict[str, list[Any]]:
    """What `make` gives for each row without its run id, by run id, in the order of the rows."""
    rows: dict[str, list[Any]] = {}
    run_ids, *columns = (column.to_pylist() for column in table.columns)
    for run_id, *row in zip(run_ids, *columns, strict=True):
        rows.setdefault(run_id, []).append(make(row))
    return rows


# -- checking ---------------------------------------------------------------------------------------------------------


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


# -- making -----------------------------------------------------------------------------------------------------------


@contextmanager
def _staged(home: Home, runs: Sequence[BundledRun]) -> Iterator[list[RunPaths]]:
    """Run directories of these runs beside `runs/`, gone again afterwards unless they were moved."""
    scratch = home.root / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        staged = [RunPaths(scratch / run.id) for run in runs]
        try:
            for run, paths in zip(runs, staged, strict=True):
                write_run(run, paths)
        except OSError as error:
            raise HomeError(
                f"the runs of the bundle could not be written: {error.strerror or error}",
                where=str(home.root),
                mend=_NO_PLACE,
            ) from error
        yield staged
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _move(staged: RunPaths, target: RunPaths) -> None:
    """Put a staged run in its place, for a directory there in which nothing was ever started."""
    try:
        if target.root.exists():
            os.rename(target.root, staged.root.with_name(f"{staged.id}.replaced"))
        os.rename(staged.root, target.root)
    except OSError as error:
        raise HomeError(
            f"a run of the bundle could not be put in its place: {error.strerror or error}",
            where=str(target.root),
            mend="give the same command again; runs that are in their place already stay",
        ) from error


def _note_experiments(home: Home, paths: RunPaths, names: Sequence[str]) -> None:
    """Add experiments to those that asked for a run that was here already."""
    with locked(home.meta_lock):
        meta = read_meta(paths)
        if not set(names) <= set(meta["experiments"]):
            meta["experiments"] = list(dict.fromkeys([*meta["experiments"], *names]))
            write(paths.meta, to_checked_json(meta))
