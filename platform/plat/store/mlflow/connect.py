"""Opens a store, for writing or for reading, and chooses how: SQLite directly, or through MLflow's client.

Our own SQL is used only for SQLite files whose schema revision is in DIRECT_SCHEMAS, the revisions that the tests hold
our rows and queries to. A file of any other revision that the installed MLflow knows is used through MLflow's client,
like a server: slower, with the same result.
"""

from __future__ import annotations

import os

from plat.errors import StoreError
from plat.store.home import Home
from plat.store.mlflow.backend import Backend
from plat.store.mlflow.client_reader import ClientReader
from plat.store.mlflow.client_store import ClientStore
from plat.store.mlflow.raw import RawReader
from plat.store.mlflow.relocation import adopt_artifacts
from plat.store.mlflow.sqlite_connection import connect_readonly, schema_revision
from plat.store.mlflow.sqlite_creation import ensure_sqlite
from plat.store.mlflow.sqlite_place import check_place
from plat.store.mlflow.sqlite_reader import SqlReader
from plat.store.mlflow.sqlite_store import SqliteStore
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import sqlite_path

DIRECT_SCHEMAS = frozenset({"dc11669786a5"})
CHECK_SECONDS = 2.0  # how long `check_store` waits for a locked SQLite file


def open_backend(home: Home, uri: str, timeout: float | None = None) -> Backend:
    """The store at `uri` open for writing; a SQLite file is made when there is none (hold the import lock).

    The store of a home that was moved or copied gets its artifacts back, see `plat.store.mlflow.relocation`.

    timeout  seconds to wait for another writer of a SQLite file, None for the usual
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
    """The store at `uri` open for reading; StoreError when there is none."""
    path = sqlite_path(uri)
    if path is not None:
        with store_errors(uri):
            connect_readonly(path).close()
            if schema_revision(path) in DIRECT_SCHEMAS:
                return SqlReader(uri)
    return ClientReader(uri)


def check_store(home: Home, uri: str) -> None:
    """StoreError when the store at `uri` cannot be used; makes nothing (a SQLite file may be absent)."""
    path = sqlite_path(uri)
    if path is None:
        ClientStore(uri, home).check()
        return
    check_place(path)
    if path.exists() and path.stat().st_size > 0:
        with store_errors(uri):
            connect_readonly(path, CHECK_SECONDS).close()
    elif home.root not in path.parents:
        folder = next(folder for folder in path.parents if folder.exists())
        if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            raise StoreError("no store can be made there", where=str(path), mend=f"make {folder} a writable folder")
