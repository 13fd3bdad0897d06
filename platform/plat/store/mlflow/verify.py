"""Holds the store against the run directories, value by value, and mends it from them (`plat doctor --deep --mend`).

A flipped bit in the database file changes a number without any error. The run directories have every number too, with
checksums, so they say what the store should hold.

Promised: checking changes nothing. Mending keeps a copy of the database first, touches only runs that differ, and never
uses a run directory that is damaged itself. Runs that only the store has cannot be checked; they are counted.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from plat.errors import StoreError
from plat.store.home import Home
from plat.store.mlflow.backend import Backend, Known, Stored, sql_value
from plat.store.mlflow.connect import open_backend, open_reader
from plat.store.mlflow.importer import import_lock, import_runs
from plat.store.mlflow.raw import RawReader, RawRun
from plat.store.mlflow.record import NOT_COMPARED, RunRecord, has_begun, read_record
from plat.store.mlflow.sqlite_connection import connect_readonly, schema_revision
from plat.store.mlflow.sqlite_schema import IncompleteStore, lost_column
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import sqlite_path
from plat.store.run_directory.files import unreadable
from plat.store.run_directory.paths import RunPaths


@dataclass
class StoreCheck:
    """What a check found. `file`: what is wrong with a damaged file, "" when it is whole; then nothing else is known.

    differing  run id -> the first thing in which the store differs from the run's directory
    damaged    run id -> what is wrong with the directory itself, which is then not compared
    alone      number of runs in the store that have no directory here
    behind     ids of runs whose directory went on since the last import, so that not all was compared
    absent     ids of runs that have not been imported yet
    deleted    run id -> MLflow id of runs that were deleted in MLflow, which are not compared
    twins      MLflow ids of runs in MLflow's bin that several homes had created at once; of each, another is kept
    """

    file: str = ""
    runs: int = 0
    values: int = 0
    differing: dict[str, str] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)
    alone: int = 0
    behind: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    deleted: dict[str, str] = field(default_factory=dict)
    twins: list[str] = field(default_factory=list)


def verify_store(home: Home, uri: str) -> StoreCheck:
    """Compare all that the store holds of this home's runs; StoreError when it cannot be opened."""
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
    """What SQLite finds wrong with the pages of a file, or what is gone of its schema; "" when nothing."""
    with store_errors(uri):
        try:
            with closing(connect_readonly(path)) as connection:
                rows = connection.execute("PRAGMA integrity_check(3)").fetchall()
                if lost := lost_column(connection, schema_revision(path)):
                    return f"its column {lost} is gone"
        except IncompleteStore as error:
            return error.what.removeprefix("the store is damaged: ")
        except sqlite3.OperationalError:
            raise  # it is locked, or cannot be opened: nothing is known of its pages
        except sqlite3.DatabaseError as error:
            return str(error)
    lines = [str(row[0]) for row in rows if row[0] != "ok"]
    return "; ".join(" ".join(line.split()) for line in lines)


def _check_run(run: RunPaths, known: Known | None, backend: Backend, reader: RawReader, check: StoreCheck) -> None:
    record = read_record(run)
    if record is None or record.damage:
        check.damaged[run.id] = record.damage if record else unreadable(run)
        return
    if known is None:
        if has_begun(run):
            check.absent.append(run.id)
        return
    if known.deleted:
        check.deleted[run.id] = known.mlflow_id
        return
    stored = backend.stored(known)
    # A signature has times of files, which a copied home may have lost. A run never changes after its result: one that
    # was imported with its result must be there as a whole, one that was imported before may not be yet.
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
    """In what the store differs from the directory, in one line; "" when in nothing.

    current  whether the store should have all of it, so that what is missing there is a difference
    """
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
    """In what the newest values, which MLflow's interface shows, differ from the histories; "" when in nothing."""
    newest: dict[str, tuple[int, float | None]] = {}
    for (key, step), value in stored.values.items():
        if key not in newest or step > newest[key][0]:
            newest[key] = (step, value)
    for key in sorted(newest.keys() | stored.newest.keys()):
        if newest.get(key) != stored.newest.get(key):
            shown, wanted = (_at(pairs.get(key)) for pairs in (stored.newest, newest))
            return f"the newest {key}, which MLflow shows, is {shown} instead of {wanted}"
    return ""


def _at(pair: tuple[int, float | None] | None) -> str:
    return "missing" if pair is None else f"{pair[1]} at step {pair[0]}"


# -- mending ----------------------------------------------------------------------------------------------------------


def mend_store(home: Home, uri: str, check: StoreCheck) -> Path | None:
    """Bring what differs back from the run directories; the copy of the database that was kept, None if untouched.

    A file with damaged pages is moved aside and a new store filled from the directories: what only the store had (runs
    without a directory, notes made in MLflow) is then in the file that was kept. StoreError for other stores.
    """
    path = sqlite_path(uri)
    if not check.file and not check.differing:
        return None
    if path is None:
        raise StoreError(
            "only a SQLite store can be mended from here",
            where="--store",
            mend="delete the runs named above in MLflow; then `plat sync` says how to import them afresh",
        )
    with import_lock(home), store_errors(uri):
        kept = _free_name(path, "damaged" if check.file else "backup")
        if check.file:
            for suffix in ("-wal", "-shm", ""):
                if (piece := path.with_name(path.name + suffix)).exists():
                    os.rename(piece, kept.with_name(kept.name + suffix))
        else:
            _copy(path, kept)
            _forget(home, uri, check.differing)
    import_runs(home, uri)
    return kept


def _free_name(path: Path, word: str) -> Path:
    number = 1
    while (name := path.with_name(f"{path.name}.{word}-{number}")).exists():
        number += 1
    return name


def _copy(path: Path, target: Path) -> None:
    with closing(connect_readonly(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


def _forget(home: Home, uri: str, runs: Iterable[str]) -> None:
    """Take out what the importer stored of these runs, so that the next import stores it again."""
    with closing(open_backend(home, uri)) as backend:
        known = backend.known()
        for run_id in runs:
            if run_id in known:
                backend.forget(known[run_id])
