"""Open a store for writing or reading, either with direct SQL or through MLflow's client.

Direct SQL is used only for SQLite files whose schema revision is in DIRECT_SCHEMAS, the revisions that the tests
cover. Servers, and SQLite files of any other revision that plat accepts, are used through MLflow's client: slower, with
the same result.
"""

from __future__ import annotations

import os

from plat.errors import StoreError
from plat.store.home import Home
from plat.store.mlflow.backend import Backend, RawReader
from plat.store.mlflow.client_reader import ClientReader
from plat.store.mlflow.client_store import ClientStore
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
