"""Takes runs out of a store: for good (`plat rm`), or into MLflow's bin and back (`plat archive`).

A run that is removed for good may be done and imported again later, as if it had never been there. So a SQLite store
forgets its rows and its artifacts. A server gives no way to that: there the run goes into MLflow's bin without the tag
by which the importer would know it again.

A run that `plat archive` puts into the bin gets the tag `plat.archived`. By it the importer tells it from a run that a
person has deleted, and `plat archive --restore` finds it again.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from plat.store.home import Home
from plat.store.mlflow.backend import ARCHIVED, TWIN
from plat.store.mlflow.client_store import ClientStore
from plat.store.mlflow.importer import import_lock
from plat.store.mlflow.sqlite_connection import connect, connect_readonly
from plat.store.mlflow.sqlite_rows import IN_BIN, set_tags
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient

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


@dataclass(frozen=True)
class _Stored:
    """An MLflow run of some plat id. `archived`: its tag `plat.archived`, None when it has none."""

    mlflow_id: str
    is_active: bool
    archived: str | None


def remove(home: Home, uri: str, run_ids: Sequence[str]) -> int:
    """Forget these runs, by plat id, and their artifacts; how many MLflow runs there were. StoreError: none is gone.

    What `plat archive` has set aside under the same ids stays."""
    return _change(home, uri, run_ids, _not_archived, _delete_rows, _remove_from_server)


def put_in_bin(home: Home, uri: str, run_ids: Sequence[str]) -> int:
    """Move these runs into MLflow's bin; how many there were. A run that a person has put there is left as it is."""
    return _change(home, uri, run_ids, _active, _mark_archived, _archive_on_server)


def take_out_of_bin(home: Home, uri: str, run_ids: Sequence[str]) -> int:
    """Bring these runs back from MLflow's bin; how many there were."""
    return _change(home, uri, run_ids, _to_restore, _mark_active, _restore_on_server)


def twins(home: Home, uri: str) -> list[str]:
    """The MLflow ids of what plat itself has put into the bin of a store and nobody can need: twins, and archived runs
    of the home's own store that are not in its archive any more."""
    path = sqlite_path(uri)
    if path is None:
        return ClientStore(uri, home).twins()
    if not path.exists() or not path.stat().st_size:
        return []
    with store_errors(uri), closing(connect_readonly(path)) as database:
        found = [row[0] for row in database.execute(IN_BIN, (TWIN,))]
        if path == home.database:
            kept = set(home.archived_ids())
            found += [run for run, plat_id in database.execute(ARCHIVED_IDS, (ARCHIVED,)) if plat_id not in kept]
        return sorted(found)


def remove_twins(home: Home, uri: str, mlflow_ids: Sequence[str]) -> None:
    """Delete these runs of a SQLite store, which are in its bin, for good."""
    path = sqlite_path(uri)
    assert path is not None
    with import_lock(home), store_errors(uri):
        with closing(connect(path)) as database, _transaction(database):
            folders = _delete_rows(database, list(mlflow_ids))
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def _not_archived(runs: list[_Stored]) -> list[_Stored]:
    return [run for run in runs if run.is_active or run.archived is None]


def _active(runs: list[_Stored]) -> list[_Stored]:
    return [run for run in runs if run.is_active]


def _to_restore(runs: list[_Stored]) -> list[_Stored]:
    """The run that was archived last; none beside an active one, since a plat id is one MLflow run."""
    if any(run.is_active for run in runs):
        return []
    archived = [run for run in runs if run.archived is not None]
    return [max(archived, key=lambda run: run.archived or "")] if archived else runs  # before 0.3 there was no such tag


def _change(
    home: Home,
    uri: str,
    run_ids: Sequence[str],
    chosen: Callable[[list[_Stored]], list[_Stored]],
    in_sqlite: Callable[[sqlite3.Connection, list[str]], list[Path]],
    on_server: Callable[[MlflowClient, str], None],
) -> int:
    """Change those that are chosen of the MLflow runs of each plat id; how many they are."""
    path = sqlite_path(uri)
    if path is not None and (not path.exists() or not path.stat().st_size):
        return 0  # there is no store yet
    with import_lock(home), store_errors(uri):
        if path is None:
            return _change_on_server(uri, run_ids, chosen, on_server)
        with closing(connect(path)) as database, _transaction(database):
            runs = []
            for run_id in run_ids:
                rows = database.execute(OF_RUN, (ARCHIVED, run_id)).fetchall()
                runs += [run.mlflow_id for run in chosen([_Stored(*row) for row in rows])]
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


def _mark_archived(database: sqlite3.Connection, runs: list[str]) -> list[Path]:
    now = int(time.time() * 1000)
    query = "UPDATE runs SET lifecycle_stage = 'deleted', deleted_time = ? WHERE run_uuid = ?"
    database.executemany(query, [(now, run) for run in runs])
    for run in runs:
        set_tags(database, run, {ARCHIVED: str(now)})
    return []


def _mark_active(database: sqlite3.Connection, runs: list[str]) -> list[Path]:
    query = "UPDATE runs SET lifecycle_stage = 'active', deleted_time = NULL WHERE run_uuid = ?"
    database.executemany(query, [(run,) for run in runs])
    database.executemany("DELETE FROM tags WHERE key = ? AND run_uuid = ?", [(ARCHIVED, run) for run in runs])
    return []


def _change_on_server(
    uri: str,
    run_ids: Sequence[str],
    chosen: Callable[[list[_Stored]], list[_Stored]],
    change: Callable[[MlflowClient, str], None],
) -> int:
    from mlflow.entities import ViewType

    from plat.store.mlflow.client import mlflow_client
    from plat.store.mlflow.client_runs import is_active

    client = mlflow_client(uri)
    experiments = [
        experiment.experiment_id for experiment in client.search_experiments(view_type=ViewType.ALL, max_results=10000)
    ]
    changed = 0
    for run_id in run_ids:
        query = f"tags.`plat.id` = '{run_id}'"
        runs = client.search_runs(experiments, query, ViewType.ALL, max_results=100)
        for run in chosen([_Stored(run.info.run_id, is_active(run), run.data.tags.get(ARCHIVED)) for run in runs]):
            change(client, run.mlflow_id)
            changed += 1
    return changed


def _archive_on_server(client: MlflowClient, run: str) -> None:
    client.set_tag(run, ARCHIVED, str(int(time.time() * 1000)))  # tags of a run in the bin cannot be changed
    client.delete_run(run)


def _restore_on_server(client: MlflowClient, run: str) -> None:
    client.restore_run(run)
    client.delete_tag(run, ARCHIVED)


def _remove_from_server(client: MlflowClient, run: str) -> None:
    if client.get_run(run).info.lifecycle_stage != "active":
        client.restore_run(run)  # as above
    client.delete_tag(run, "plat.id")
    client.delete_run(run)
