"""Compare the store with the run directories, value by value, and fix it from them (`plat doctor --deep --fix`).

The run directories hold every number with checksums, so they show flipped bits in the database file. A check changes
nothing. A fix first keeps a copy of the database, touches only runs that differ, and never uses a damaged run
directory. Runs without a directory cannot be checked; they are counted.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from plat.errors import StoreError
from plat.store.home import Home
from plat.store.mlflow.backend import Backend, Known, RawReader, RawRun, Stored, sql_value
from plat.store.mlflow.connect import open_backend, open_reader
from plat.store.mlflow.importer import import_lock, import_runs
from plat.store.mlflow.run_record import NOT_COMPARED, RunRecord, as_stored, has_begun, read_record
from plat.store.mlflow.sqlite_connection import IncompleteStore, connect_readonly, lost_column, schema_revision
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import sqlite_path
from plat.store.run_directory.own_files import Damage
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import META_MISSING, unreadable


@dataclass
class StoreCheck:
    """The result of a check."""

    file: str = ""  # problem of a damaged database file, else ""; if the file is damaged, the other fields are empty
    runs: int = 0  # number of compared runs, with `values` metric values
    values: int = 0
    differing: dict[str, str] = field(default_factory=dict)  # run id -> first difference from the run's directory
    damaged: dict[str, Damage] = field(default_factory=dict)  # run id -> damage of the directory, which is not compared
    alone: int = 0  # number of runs in the store without a directory here
    behind: list[str] = field(default_factory=list)  # ids of runs changed since the last import; compared in part
    absent: list[str] = field(default_factory=list)  # ids of runs that have not been imported yet
    deleted: dict[str, str] = field(default_factory=dict)  # run id -> MLflow id of runs deleted in MLflow: not compared
    twins: list[str] = field(default_factory=list)  # MLflow ids of duplicates in MLflow's bin (`TWIN`)


def verify_store(home: Home, uri: str) -> StoreCheck:
    """Compare the stored runs with this home's directories; first fix artifact paths of a moved home (`open_backend`).

    Raises StoreError if the store cannot be opened, or if another process holds the import lock.
    """
    path = sqlite_path(uri)
    if path is not None and (problem := _file_problem(path, uri)):
        return StoreCheck(file=problem)
    check = StoreCheck()
    with import_lock(home), closing(open_backend(home, uri)) as backend, closing(open_reader(uri)) as reader:
        known = backend.known()
        check.twins = backend.twins()
        paths = home.all_runs()
        for run in paths:
            _check_run(run, known.get(run.id), backend, reader, check)
        check.alone = len(set(known) - {run.id for run in paths})
    return check


def _file_problem(path: Path, uri: str) -> str:
    """Return what SQLite's integrity check reports of a file, or what its schema lacks; "" if it is whole."""
    with store_errors(uri):
        try:
            with closing(connect_readonly(path)) as connection:
                rows = connection.execute("PRAGMA integrity_check(3)").fetchall()
                if lost := lost_column(connection, schema_revision(path)):
                    return f"its column {lost} is gone"
        except IncompleteStore as error:
            return error.what.removeprefix("the store is damaged: ")
        except sqlite3.OperationalError:
            raise  # locked, or cannot be opened: its pages were not checked
        except sqlite3.DatabaseError as error:
            return str(error)
    lines = [str(row[0]) for row in rows if row[0] != "ok"]
    return "; ".join(" ".join(line.split()) for line in lines)


def _check_run(run: RunPaths, known: Known | None, backend: Backend, reader: RawReader, check: StoreCheck) -> None:
    record = read_record(run)
    if record is None or record.damage:
        check.damaged[run.id] = (record and record.damage) or unreadable(run) or META_MISSING
        return
    if known is None:
        if has_begun(run):
            check.absent.append(run.id)
        return
    if known.deleted:
        check.deleted[run.id] = known.mlflow_id
        return
    stored = backend.stored(known)
    # A signature contains file times, which a copy of a home may lose, so it alone does not decide. A run never changes
    # after its result: if it was imported with its result, the store must have all of it.
    imported_whole = record.done and record.status == stored.status
    current = imported_whole or known.signature == record.signature
    problem = _difference(record, stored, current)
    if not current and not problem:
        check.behind.append(run.id)
        return
    if not problem:
        place = RawRun(known.mlflow_id, record.name, {}, {}, stored.artifacts)
        wrong = [name for name, data in record.artifacts.items() if reader.artifact(place, name) != data]
        problem = f"its file {wrong[0]} is missing or differs" if wrong else ""
    if problem:
        check.differing[run.id] = problem
    check.runs += 1
    check.values += len(record.points)


def _difference(record: RunRecord, stored: Stored, current: bool) -> str:
    """Return the first difference between the store and the directory in one line, "" if there is none.

    current  True if the store should have the whole run, so that missing values count as differences
    """
    record = as_stored(record, {key for key, _ in stored.values})
    expected = {(point.key, point.step): sql_value(point.value) for point in record.points}
    for key, step in sorted(stored.values.keys() - expected.keys()):
        return f"{key} at step {step} is in the store alone"
    for (key, step), value in expected.items():
        if (key, step) not in stored.values:
            if current:
                return f"{key} at step {step} is missing"
        elif stored.values[key, step] != value and not key.startswith(NOT_COMPARED):
            return f"{key} at step {step} is {stored.values[key, step]} instead of {value}"
    if problem := _newest_problem(stored):
        return problem
    if not current:
        return ""
    if record.status != stored.status:
        return f"its status is {stored.status} instead of {record.status}"
    for category, wanted, have in (("option", record.params, stored.params), ("tag", record.tags, stored.tags)):
        for name, text in wanted.items():
            if have.get(name) != text:
                return f"{category} {name} is {have.get(name)!r} instead of {text!r}"
    return ""


def _newest_problem(stored: Stored) -> str:
    """Return the first metric whose newest value, which MLflow shows, differs from its history; "" if there is none."""
    newest: dict[str, tuple[int, float | None]] = {}
    for (key, step), value in stored.values.items():
        if key not in newest or step > newest[key][0]:
            newest[key] = (step, value)
    for key in sorted(newest.keys() | stored.newest.keys()):
        if newest.get(key) != stored.newest.get(key):
            pairs = (stored.newest.get(key), newest.get(key))
            shown, wanted = (f"{pair[1]} at step {pair[0]}" if pair else "missing" for pair in pairs)
            return f"the newest {key}, which MLflow shows, is {shown} instead of {wanted}"
    return ""


# -- fixing ----------------------------------------------------------------------------------------------------------


def repair_store(home: Home, uri: str, check: StoreCheck) -> Path | None:
    """Fix the damaged file or the differing runs of a check from the run directories, then import all runs.

    Returns the path of the kept copy of the database; without damage and differences, does nothing and returns None. A
    file with damaged pages is moved aside and a new store is filled from the directories; runs without a directory and
    notes made in MLflow then remain in the kept file only. Raises StoreError for stores other than SQLite.
    """
    path = sqlite_path(uri)
    if not check.file and not check.differing:
        return None
    if path is None:
        raise StoreError(
            "only a SQLite store can be fixed from here",
            where="--store",
            fix="delete the runs named above in MLflow; then `plat sync` says how to import them afresh",
        )
    with import_lock(home), store_errors(uri):
        names = (f"{path.name}.{'damaged' if check.file else 'backup'}-{number}" for number in itertools.count(1))
        kept = next(file for name in names if not (file := path.with_name(name)).exists())
        if check.file:
            for suffix in ("-wal", "-shm", ""):
                if (piece := path.with_name(path.name + suffix)).exists():
                    os.rename(piece, kept.with_name(kept.name + suffix))
        else:
            with closing(connect_readonly(path)) as source, closing(sqlite3.connect(kept)) as copy:
                source.backup(copy)
            _forget(home, uri, check.differing)
    import_runs(home, uri)
    return kept


def restore_runs(home: Home, uri: str, ids: Iterable[str]) -> None:
    """Store these runs again from their directories, after a reader found, by digest, that they changed in the store.

    Skips runs whose directory is not here, done and undamaged. A server cannot delete values: there, missing content
    is restored and changed values stay. Raises StoreError or HomeError if the store or the home cannot be written.
    """
    records = ((paths, read_record(paths)) for paths in map(home.run, ids))
    runs = [paths for paths, record in records if record is not None and record.done and not record.damage]
    if runs:
        with import_lock(home):
            _forget(home, uri, [paths.id for paths in runs])
        import_runs(home, uri, runs=runs)


def _forget(home: Home, uri: str, runs: Collection[str]) -> None:
    """Remove the imported content of these runs, so that the next import stores it again."""
    with closing(open_backend(home, uri)) as backend:
        known = backend.known(runs)
        for run_id in known.keys() & set(runs):
            backend.forget(known[run_id])
