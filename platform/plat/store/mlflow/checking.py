"""Check every run of a store against its hash and its directory, and repair the store (`plat doctor --deep --fix`)."""

from __future__ import annotations

import itertools
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from plat.errors import StoreError
from plat.store.home import Home
from plat.store.measured import Measured, conflict, decode, lacking
from plat.store.mlflow.artifacts import Edited, read_artifacts
from plat.store.mlflow.deletion import twins
from plat.store.mlflow.importer import import_lock, import_runs
from plat.store.mlflow.run_record import has_begun, read_record
from plat.store.mlflow.sqlite_file import check_file, has_content
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.stored_runs import StoredRun, stored_runs
from plat.store.mlflow.uri import sqlite_path
from plat.store.run_directory.own_files import Damage
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import META_MISSING, unreadable


@dataclass
class StoreCheck:
    """The result of a check."""

    file: str = ""  # problem of a damaged database file, else ""; if the file is damaged, the other fields are empty
    runs: int = 0  # number of runs whose artifact was checked
    alone: int = 0  # of them, those without a directory here
    differing: dict[str, str] = field(default_factory=dict)  # run id -> what is wrong with it in the store
    damaged: dict[str, Damage] = field(default_factory=dict)  # run id -> damage of the directory
    behind: list[str] = field(default_factory=list)  # ids of runs that were not imported yet, or changed since
    deleted: dict[str, str] = field(default_factory=dict)  # run id -> MLflow id of runs deleted in MLflow: not compared
    twins: list[str] = field(default_factory=list)  # MLflow ids of duplicates in MLflow's bin


def check_runs(home: Home, uri: str) -> StoreCheck:
    """Check the hash of every artifact, and compare done runs with their directories.

    Raises StoreError if the store cannot be opened.
    """
    path = sqlite_path(uri)
    if path is not None and has_content(path) and (problem := _file_problem(path)):
        return StoreCheck(file=problem)
    known = stored_runs(home, uri)
    check = StoreCheck(twins=twins(home, uri))
    present = [run for run in known.values() if run.measured and not run.deleted]
    read = read_artifacts(home, uri, present)
    check.runs = len(present)
    check.differing = {run_id: str(found) for run_id, found in read.items() if isinstance(found, Edited)}
    runs = home.all_runs()
    check.alone = len(read.keys() - {run.id for run in runs})
    for run in runs:
        _check_directory(run, known.get(run.id), read.get(run.id), check)
    return check


def _check_directory(
    run: RunPaths, have: StoredRun | None, stored: Measured | Edited | None, check: StoreCheck
) -> None:
    record = read_record(run)
    if record is None or record.damage:
        check.damaged[run.id] = (record and record.damage) or unreadable(run) or META_MISSING
    elif have is not None and have.deleted:
        check.deleted[run.id] = have.mlflow_id
    elif have is None or have.measured is None or not (have.whole and record.done):
        if has_begun(run) and (have is None or have.signature != record.signature):
            check.behind.append(run.id)
    elif isinstance(stored, Measured) and have.measured != record.sha256:
        own = decode(record.measured)
        if problem := conflict(own, stored):
            check.differing[run.id] = f"in its directory, {problem}"
        elif problem := lacking(own, stored):
            check.differing[run.id] = problem


def _file_problem(path: Path) -> str:
    """Return what SQLite's integrity check reports of a file, "" if it is whole."""
    with store_errors(f"sqlite:///{path}"):
        try:
            check_file(path)
            with closing(sqlite3.connect(path)) as file:
                rows = file.execute("PRAGMA integrity_check(3)").fetchall()
        except StoreError as error:
            if "damaged" not in error.what:
                raise
            return error.what.removeprefix("the store is damaged: ")
        except sqlite3.OperationalError:
            raise  # locked, or cannot be opened: its pages were not checked
        except sqlite3.DatabaseError as error:
            return str(error)
    lines = [str(row[0]) for row in rows if row[0] != "ok"]
    return "; ".join(" ".join(line.split()) for line in lines)


def repair(home: Home, uri: str, check: StoreCheck) -> Path | None:
    """Write the differing runs of a check again from their directories; return the path of a damaged file, set aside.

    In place of a damaged file a new store is filled from the directories; runs without a directory and notes made in
    MLflow then remain in the file that was set aside.
    """
    path, kept = sqlite_path(uri), None
    if check.file and path is not None:
        with import_lock(home), store_errors(uri):
            names = (path.with_name(f"{path.name}.damaged-{number}") for number in itertools.count(1))
            kept = next(name for name in names if not name.exists())
            for suffix in ("-wal", "-shm", ""):
                if (piece := path.with_name(path.name + suffix)).exists():
                    os.rename(piece, kept.with_name(kept.name + suffix))
        import_runs(home, uri)
    else:
        here = [run for run in map(home.run, check.differing) if run.root.is_dir()]
        import_runs(home, uri, runs=here, again=True)
    return kept
