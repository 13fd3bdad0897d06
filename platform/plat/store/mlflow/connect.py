"""Open a store for writing or reading, either with direct SQL or through MLflow's client.

Direct SQL is used only for SQLite files whose schema revision is in DIRECT_SCHEMAS, the revisions that the tests
cover. Servers, and SQLite files of any other revision that plat accepts, are used through MLflow's client, with the
same result: slow, with one request per metric of each run.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from plat.errors import StoreError
from plat.store.home import Home
from plat.store.mlflow.backend import Backend, RawReader, RawRun, Series, restore
from plat.store.mlflow.client_runs import is_archived, is_twin
from plat.store.mlflow.client_store import ClientStore
from plat.store.mlflow.mlflow_client import find_runs, mlflow_client
from plat.store.mlflow.relocation import adopt_artifacts
from plat.store.mlflow.sqlite_connection import check_place, connect_readonly, has_content, schema_revision
from plat.store.mlflow.sqlite_creation import ensure_sqlite
from plat.store.mlflow.sqlite_reader import SqlReader
from plat.store.mlflow.sqlite_store import SqliteStore
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import sqlite_path

DIRECT_SCHEMAS = frozenset({"dc11669786a5"})
CHECK_SECONDS = 2.0  # how long `check_store` waits for a locked SQLite file


def open_backend(home: Home, uri: str, timeout: float | None = None) -> Backend:
    """Open the store at `uri` for writing and create a missing SQLite file. The caller holds the import lock.

    Fixes the artifact paths of a moved or copied home, see `plat.store.mlflow.relocation`. Raises StoreError if the
    store cannot be opened.

    timeout  seconds to wait for another writer of a SQLite file, None for the default
    """
    if sqlite_path(uri) is not None:
        path = ensure_sqlite(uri)
        adopt_artifacts(uri, timeout)
        with store_errors(uri):
            revision = schema_revision(path, timeout)
        if revision in DIRECT_SCHEMAS:
            return SqliteStore(uri, timeout)
    return ClientStore(uri, home)


def open_reader(uri: str) -> RawReader:
    """Open the store at `uri` for reading. Raises StoreError for an unusable SQLite file; a server may fail later."""
    path = sqlite_path(uri)
    if path is not None:
        with store_errors(uri):
            connect_readonly(path).close()
            if schema_revision(path) in DIRECT_SCHEMAS:
                return SqlReader(uri)
    return ClientReader(uri)


def check_store(home: Home, uri: str) -> None:
    """Raise StoreError if the store at `uri` cannot be used. Creates nothing; a SQLite file may be absent."""
    path = sqlite_path(uri)
    if path is None:
        ClientStore(uri, home).check()
        return
    check_place(path)
    if has_content(path):
        with store_errors(uri):
            connect_readonly(path, CHECK_SECONDS).close()
    elif home.root not in path.parents:
        folder = next(folder for folder in path.parents if folder.exists())
        if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            raise StoreError("no store can be made there", where=str(path), fix=f"make {folder} a writable folder")


class ClientReader:
    """A `backend.RawReader` for stores behind MLflow's client. Call `runs` before `series`."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.client = mlflow_client(uri)
        self._keys: dict[str, list[str]] = {}  # MLflow id -> metric keys of the run

    def close(self) -> None:
        pass

    def runs(self, file: str, params: bool = True) -> list[RawRun]:
        from mlflow.entities import ViewType

        with store_errors(self.uri):
            found = find_runs(self.client, f"tags.`plat.in.{file}` = '1'", ViewType.ACTIVE_ONLY)
        runs = []
        for run in found:
            info, data = run.info, run.data
            self._keys[info.run_id] = sorted(data.metrics)
            given = data.params if params else {}
            runs.append(RawRun(info.run_id, info.run_name, data.tags, given, info.artifact_uri))
        return runs

    def deleted(self, file: str) -> set[str]:
        from mlflow.entities import ViewType

        with store_errors(self.uri):
            found = find_runs(self.client, f"tags.`plat.in.{file}` = '1'", ViewType.DELETED_ONLY)
        runs = [run for run in found if not is_archived(run) and not is_twin(run)]
        return {run.data.tags["plat.id"] for run in runs if "plat.id" in run.data.tags}

    def series(self, run: RawRun) -> Series:
        import numpy as np

        keys = self._keys[run.mlflow_id]
        with store_errors(self.uri):
            histories = [_by_step(self.client.get_metric_history(run.mlflow_id, key)) for key in keys]
        points = [point for history in histories for point in history]
        steps = np.array([point.step for point in points], dtype=np.int64)
        values = np.array([point.value for point in points], dtype=np.float64)
        return Series(keys, [len(history) for history in histories], steps, restore(values))

    def artifact(self, run: RawRun, name: str) -> bytes | None:
        with store_errors(self.uri):
            if name not in {entry.path for entry in self.client.list_artifacts(run.mlflow_id)}:
                return None
            with tempfile.TemporaryDirectory() as folder:
                return Path(self.client.download_artifacts(run.mlflow_id, name, folder)).read_bytes()


def _by_step(history: list[Any]) -> list[Any]:
    """Return one point per step, sorted; the first of duplicates, which two importers at once may leave."""
    first: dict[int, Any] = {}
    for point in sorted(history, key=lambda point: (point.step, point.timestamp)):
        first.setdefault(point.step, point)
    return list(first.values())
