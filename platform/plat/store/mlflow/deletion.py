"""Remove runs from a store for good (`plat rm`).

A removed run can be done and imported again. A SQLite store deletes its rows and artifacts; a server cannot, so the run
goes into MLflow's bin without the tag `plat.id`.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from plat.store.home import Home
from plat.store.mlflow.backend import TWIN
from plat.store.mlflow.client_store import ClientStore
from plat.store.mlflow.importer import import_lock
from plat.store.mlflow.mlflow_client import find_runs, mlflow_client
from plat.store.mlflow.sqlite_connection import connect, connect_readonly, has_content, transaction
from plat.store.mlflow.sqlite_rows import IN_BIN
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import sqlite_path

OF_RUN = "SELECT run_uuid FROM tags WHERE key = 'plat.id' AND value = ?"

TABLES_OF_RUNS = """
SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
WHERE m.type = 'table' AND c.name = 'run_uuid' AND m.name <> 'runs'
"""


def remove(home: Home, uri: str, run_ids: Sequence[str]) -> None:
    """Remove these runs, by plat id, and their artifacts, if there is a store.

    Raises StoreError if the store cannot be changed; a SQLite store is then unchanged.
    """
    path = sqlite_path(uri)
    if path is None or has_content(path):
        with import_lock(home), store_errors(uri), _opened(uri) as runs:
            for run_id in run_ids:
                for mlflow_id in runs.of(run_id):
                    runs.delete(mlflow_id)


def twins(home: Home, uri: str) -> list[str]:
    """Return the MLflow ids of twins in the bin, which plat does not need. StoreError if the store cannot be read."""
    path = sqlite_path(uri)
    if path is None:
        return ClientStore(uri, home).twins()
    if not has_content(path):
        return []
    with store_errors(uri), closing(connect_readonly(path)) as database:
        return sorted(row[0] for row in database.execute(IN_BIN, (TWIN,)))


def remove_twins(home: Home, uri: str, mlflow_ids: Sequence[str]) -> None:
    """Delete these runs, which are in the bin of a SQLite store, with their artifacts for good.

    Raises StoreError if the store cannot be changed.
    """
    with import_lock(home), store_errors(uri), _opened(uri) as runs:
        for run in mlflow_ids:
            runs.delete(run)


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

    def of(self, plat_id: str) -> list[str]:
        """Return the MLflow ids of a plat id."""
        return [row[0] for row in self._database.execute(OF_RUN, (plat_id,)).fetchall()]

    def delete(self, run: str) -> None:
        query = "SELECT artifact_uri FROM runs WHERE run_uuid = ?"
        (place,) = self._database.execute(query, (run,)).fetchone() or ("",)
        folder = Path(str(place).removeprefix("file://"))
        if folder.is_absolute() and folder.parent.name == run:  # <root>/<experiment>/<run>/artifacts, plat's layout
            self.folders.append(folder.parent)
        for (table,) in self._database.execute(TABLES_OF_RUNS).fetchall():
            self._database.execute(f'DELETE FROM "{table}" WHERE run_uuid = ?', (run,))
        self._database.execute("DELETE FROM runs WHERE run_uuid = ?", (run,))


class _ServerRuns:
    """The runs of a server. Tags of a run in its bin cannot be changed."""

    def __init__(self, uri: str) -> None:
        from mlflow.entities import ViewType

        self._client = mlflow_client(uri)
        found = self._client.search_experiments(view_type=ViewType.ALL, max_results=10000)
        self._experiments = [experiment.experiment_id for experiment in found]

    def of(self, plat_id: str) -> list[str]:
        """Return the MLflow ids of a plat id."""
        from mlflow.entities import ViewType

        runs = find_runs(self._client, f"tags.`plat.id` = '{plat_id}'", ViewType.ALL, self._experiments)
        return [run.info.run_id for run in runs]

    def delete(self, run: str) -> None:
        if self._client.get_run(run).info.lifecycle_stage != "active":
            self._client.restore_run(run)
        self._client.delete_tag(run, "plat.id")
        self._client.delete_run(run)


_Runs = _SqliteRuns | _ServerRuns
