"""Takes runs out of a store: for good (`plat rm`), or into MLflow's bin and back (`plat archive`).

A run that is removed for good may be done and imported again later, as if it had never been there. So a SQLite store
forgets its rows and its artifacts. A server gives no way to that: there the run goes into MLflow's bin without the tag
by which the importer would know it again.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from plat.store.home import Home
from plat.store.mlflow.importer import import_lock
from plat.store.mlflow.sqlite_connection import connect
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient

OF_RUN = "SELECT run_uuid FROM tags WHERE key = 'plat.id' AND value = ?"


def remove(home: Home, uri: str, run_ids: Sequence[str]) -> int:
    """Forget these runs, by plat id, and their artifacts; how many MLflow runs there were. StoreError: none is gone."""
    return _change(home, uri, run_ids, _delete_rows, _remove_from_server)


def put_in_bin(home: Home, uri: str, run_ids: Sequence[str]) -> int:
    """Move these runs into MLflow's bin; how many there were."""
    return _change(home, uri, run_ids, _mark_deleted, lambda client, run: client.delete_run(run))


def take_out_of_bin(home: Home, uri: str, run_ids: Sequence[str]) -> int:
    """Bring these runs back from MLflow's bin; how many there were."""
    return _change(home, uri, run_ids, _mark_active, lambda client, run: client.restore_run(run))


def _change(
    home: Home,
    uri: str,
    run_ids: Sequence[str],
    in_sqlite: Callable[[sqlite3.Connection, list[str]], list[Path]],
    on_server: Callable[[MlflowClient, str], None],
) -> int:
    path = sqlite_path(uri)
    if path is not None and (not path.exists() or not path.stat().st_size):
        return 0  # there is no store yet
    with import_lock(home), store_errors(uri):
        if path is None:
            return _change_on_server(uri, run_ids, on_server)
        with closing(connect(path)) as database, _transaction(database):
            runs = [row[0] for run_id in run_ids for row in database.execute(OF_RUN, (run_id,))]
            artifacts = in_sqlite(database, runs)
        for folder in artifacts:
            shutil.rmtree(folder, ignore_errors=True)
        return len(runs)


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _delete_rows(database: sqlite3.Connection, runs: list[str]) -> list[Path]:
    """Delete every row of these runs, whatever table it is in; the folders of their artifacts."""
    columns = database.execute(
        "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c"
        " WHERE m.type = 'table' AND c.name = 'run_uuid' AND m.name <> 'runs'"
    ).fetchall()
    folders = []
    for run in runs:
        (place,) = database.execute("SELECT artifact_uri FROM runs WHERE run_uuid = ?", (run,)).fetchone() or ("",)
        folder = Path(str(place).removeprefix("file://"))
        if folder.is_absolute() and folder.parent.name == run:  # <root>/<experiment>/<run>/artifacts, as we make them
            folders.append(folder.parent)
        for (table,) in columns:
            database.execute(f'DELETE FROM "{table}" WHERE run_uuid = ?', (run,))
        database.execute("DELETE FROM runs WHERE run_uuid = ?", (run,))
    return folders


def _mark_deleted(database: sqlite3.Connection, runs: list[str]) -> list[Path]:
    now = int(time.time() * 1000)
    query = "UPDATE runs SET lifecycle_stage = 'deleted', deleted_time = ? WHERE run_uuid = ?"
    database.executemany(query, [(now, run) for run in runs])
    return []


def _mark_active(database: sqlite3.Connection, runs: list[str]) -> list[Path]:
    query = "UPDATE runs SET lifecycle_stage = 'active', deleted_time = NULL WHERE run_uuid = ?"
    database.executemany(query, [(run,) for run in runs])
    return []


def _change_on_server(uri: str, run_ids: Sequence[str], change: Callable[[MlflowClient, str], None]) -> int:
    from mlflow.entities import ViewType

    from plat.store.mlflow.client import mlflow_client

    client = mlflow_client(uri)
    experiments = [
        experiment.experiment_id for experiment in client.search_experiments(view_type=ViewType.ALL, max_results=10000)
    ]
    changed = 0
    for run_id in run_ids:
        query = f"tags.`plat.id` = '{run_id}'"
        for run in client.search_runs(experiments, query, ViewType.ALL, max_results=100):
            change(client, run.info.run_id)
            changed += 1
    return changed


def _remove_from_server(client: MlflowClient, run: str) -> None:
    if client.get_run(run).info.lifecycle_stage != "active":
        client.restore_run(run)  # tags of a run in the bin cannot be changed
    client.delete_tag(run, "plat.id")
    client.delete_run(run)
