"""Open a store for writing, and check that a store can be used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from plat.errors import StoreError
from plat.store.home import Home
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.sqlite_file import check_file, check_place, ensure_sqlite, has_content, store_lock
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.store_writer import StoreWriter
from plat.store.mlflow.uri import sqlite_path

CHECK_SECONDS = 2.0  # how long `check_store` waits for a locked SQLite file


@contextmanager
def open_writer(home: Home, uri: str, timeout: float | None = None) -> Iterator[StoreWriter]:
    """Open the store at `uri` for writing, create a missing SQLite file, and hold its lock for the length of the block.

    The caller holds the import lock. Raises StoreError if the store cannot be opened.

    timeout  seconds to wait for other writers of a SQLite file, None for the defaults
    """
    with store_lock(uri, timeout):
        _make_file(uri, timeout)
        writer = StoreWriter(uri, home)
        yield writer
        writer.close()  # after an error its list of the runs may lack one


def prepare_store(uri: str) -> None:
    """Create a missing SQLite file, and check that the store can be written to; a server answers. Raises StoreError.

    Does not load MLflow for a SQLite file. The caller holds the import lock.
    """
    if sqlite_path(uri) is None:
        with store_errors(uri):
            mlflow_client(uri).search_experiments(max_results=1)
        return
    with store_lock(uri):
        _make_file(uri, None)


def _make_file(uri: str, timeout: float | None) -> None:
    """Create a missing SQLite file, and check one that exists. The caller holds the lock of the store."""
    if sqlite_path(uri) is not None and has_content(path := ensure_sqlite(uri)):
        check_file(path, timeout, to_write=True)


def check_store(home: Home, uri: str) -> None:
    """Raise StoreError if the store at `uri` cannot be used. Creates nothing; a SQLite file may be absent."""
    path = sqlite_path(uri)
    if path is None:
        with store_errors(uri):
            mlflow_client(uri).search_experiments(max_results=1)
        return
    check_place(path)
    if has_content(path):
        check_file(path, CHECK_SECONDS)
    elif home.root not in path.parents:
        folder = next(folder for folder in path.parents if folder.exists())
        if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            raise StoreError("no store can be made there", where=str(path), fix=f"make {folder} a writable folder")
