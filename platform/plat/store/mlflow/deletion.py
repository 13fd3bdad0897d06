"""Remove runs from a store for good (`plat rm`), or move them into MLflow's bin and back (`plat archive`).

A removed run can be done and imported again. A SQLite store deletes its rows and artifacts; a server cannot, so the run
goes into MLflow's bin without the tag `plat.id`. An archived run gets the tag `plat.archived`, which distinguishes it
from a run that the user deleted and by which `plat archive --restore` finds it.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from plat.store.home import Home
from plat.store.mlflow.backend import ARCHIVED, TWIN
from plat.store.mlflow.client_runs import is_active
from plat.store.mlflow.client_store import ClientStore
from plat.store.mlflow.importer import import_lock
from plat.store.mlflow.mlflow_client import find_runs, mlflow_client
from plat.store.mlflow.sqlite_connection import connect, connect_readonly, has_content, transaction
from plat.store.mlflow.sqlite_rows import IN_BIN, set_tags
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import sqlite_path

OF_RUN = """
SELECT runs.run_uuid, runs.lifecycle_stage = 'active', archived.value FROM tags AS id
JOIN runs ON runs.run_uuid = id.run_uuid
LEFT JOIN tags AS archived ON archived.key = ? AND archived.run_uuid = id.run_uuid
WHERE id.key = 'plat.id' AND id.value = ?
"""

ARCHIVED_IDS = """
SELECT runs.run_uuid, id.value FROM tags AS archived JOIN runs ON runs.run_uuid = archived.run_uuid
JOIN tags AS id ON id.key = 'plat.id' AND id.run_uuid = runs.run_uuid
WHERE archived.key = ? AND runs.lifecycle_stage = 'deleted'
"""

TABLES_OF_RUNS = """
SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
WHERE m.type = 'table' AND c.name = 'run_uuid' AND m.name <> 'runs'
"""


@dataclass(frozen=True)
class _Stored:
    """An MLflow run of a plat id. `archived` is its tag `plat.archived`, None without one."""

    mlflow_id: str
    is_active: bool
    archived: str | None


def remove(home: Home, uri: str, run_ids: Sequence[str]) -> None:
    """Remove these runs, by plat id, and their artifacts, if there is a store. Archived runs of the same ids stay.

    Raises StoreError if the store cannot be changed; a SQLite store is then unchanged.
    """

    def change(runs: _Runs, found: list[_Stored]) -> None:
        for run in found:
            if run.is_active or run.archived is None:
                runs.delete(run.mlflow_id)

    _change(home, uri, run_ids, change)


def put_in_bin(home: Home, uri: str, run_ids: Sequence[str]) -> None:
    """Move these active runs into MLflow's bin with the tag `plat.archived`. Raises StoreError as `remove`."""

    def change(runs: _Runs, found: list[_Stored]) -> None:
        for run in found:
            if run.is_active:
                runs.archive(run.mlflow_id)

    _change(home, uri, run_ids, change)


def take_out_of_bin(home: Home, uri: str, run_ids: Sequence[str]) -> None:
    """Restore, for each of these run ids, the MLflow run that `plat archive` put into MLflow's bin last.

    Does nothing for an id that has an active run. Raises StoreError as `remove`.
    """

    def change(runs: _Runs, found: list[_Stored]) -> None:
        archived = [run for run in found if run.archived is not None]
        if archived and not any(run.is_active for run in found):  # because a plat id is one MLflow run
            runs.restore(max(archived, key=lambda run: run.archived or "").mlflow_id)

    _change(home, uri, run_ids, change)


def twins(home: Home, uri: str) -> list[str]:
    """Return the MLflow ids of runs in the bin that plat no longer needs: twins and, in the home's own store, archived
    runs that have left the home's archive. Raises StoreError if the store cannot be read."""
    path = sqlite_path(uri)
    if path is None:
        return ClientStore(uri, home).twins()
    if not has_content(path):
        return []
    with store_errors(uri), closing(connect_readonly(path)) as database:
        found = [row[0] for row in database.execute(IN_BIN, (TWIN,))]
        if path == home.database:
            kept = set(home.archived_ids())
            found += [run for run, plat_id in database.execute(ARCHIVED_IDS, (ARCHIVED,)) if plat_id not in kept]
        return sorted(found)


def remove_twins(home: Home, uri: str, mlflow_ids: Sequence[str]) -> None:
    """Delete these runs, which are in the bin of a SQLite store, with their artifacts for good.

    Raises StoreError if the store cannot be changed.
    """
    with import_lock(home), store_errors(uri), _opened(uri) as runs:
        for run in mlflow_ids:
            runs.delete(run)


def _change(home: Home, uri: str, run_ids: Sequence[str], change: Callable[[_Runs, list[_Stored]], None]) -> None:
    """Call `change` with the MLflow runs of each plat id, if there is a store."""
    path = sqlite_path(uri)
    if path is None or has_content(path):
        with import_lock(home), store_errors(uri), _opened(uri) as runs:
            for run_id in run_ids:
                change(runs, runs.of(run_id))


@contextmanager
def _opened(uri: str) -> Iterator[_Runs]:
    """Open the runs of a store; changes in the block are one transaction of a SQLite store."""
    path = sqlite_path(uri)
    if path is None:
        yield _ServerRuns(uri)
        return
    with closing(connect(path)) as database, transaction(database):
        runs = _SqliteRuns(database)
        yield runs
    for folder in runs.folders:
        shutil.rmtree(folder, ignore_errors=True)


class _SqliteRuns:
    """The runs of a SQLite store. `folders` are those of the artifacts of deleted runs."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.folders: list[Path] = []
        self._database = database

    def of(self, plat_id: str) -> list[_Stored]:
        rows = self._database.execute(OF_RUN, (ARCHIVED, plat_id)).fetchall()
        return [_Stored(mlflow_id, bool(is_active), archived) for mlflow_id, is_active, archived in rows]

    def delete(self, run: str) -> None:
        query = "SELECT artifact_uri FROM runs WHERE run_uuid = ?"
        (place,) = self._database.execute(query, (run,)).fetchone() or ("",)
        folder = Path(str(place).removeprefix("file://"))
        if folder.is_absolute() and folder.parent.name == run:  # <root>/<experiment>/<run>/artifacts, plat's layout
            self.folders.append(folder.parent)
        for (table,) in self._database.execute(TABLES_OF_RUNS).fetchall():
            self._database.execute(f'DELETE FROM "{table}" WHERE run_uuid = ?', (run,))
        self._database.execute("DELETE FROM runs WHERE run_uuid = ?", (run,))

    def archive(self, run: str) -> None:
        now = int(time.time() * 1000)
        query = "UPDATE runs SET lifecycle_stage = 'deleted', deleted_time = ? WHERE run_uuid = ?"
        self._database.execute(query, (now, run))
        set_tags(self._database, run, {ARCHIVED: str(now)})

    def restore(self, run: str) -> None:
        query = "UPDATE runs SET lifecycle_stage = 'active', deleted_time = NULL WHERE run_uuid = ?"
        self._database.execute(query, (run,))
        self._database.execute("DELETE FROM tags WHERE key = ? AND run_uuid = ?", (ARCHIVED, run))


class _ServerRuns:
    """The runs of a server. Tags of a run in its bin cannot be changed."""

    def __init__(self, uri: str) -> None:
        from mlflow.entities import ViewType

        self._client = mlflow_client(uri)
        found = self._client.search_experiments(view_type=ViewType.ALL, max_results=10000)
        self._experiments = [experiment.experiment_id for experiment in found]

    def of(self, plat_id: str) -> list[_Stored]:
        from mlflow.entities import ViewType

        runs = find_runs(self._client, f"tags.`plat.id` = '{plat_id}'", ViewType.ALL, self._experiments)
        return [_Stored(run.info.run_id, is_active(run), run.data.tags.get(ARCHIVED)) for run in runs]

    def delete(self, run: str) -> None:
        if self._client.get_run(run).info.lifecycle_stage != "active":
            self._client.restore_run(run)
        self._client.delete_tag(run, "plat.id")
        self._client.delete_run(run)

    def archive(self, run: str) -> None:
        self._client.set_tag(run, ARCHIVED, str(int(time.time() * 1000)))
        self._client.delete_run(run)

    def restore(self, run: str) -> None:
        self._client.restore_run(run)
        self._client.delete_tag(run, ARCHIVED)


_Runs = _SqliteRuns | _ServerRuns
