"""Connections to the SQLite file of a store, without MLflow's import and its round trip for each metric.

Each file's schema revision is checked against the installed MLflow's before the file is used.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from plat.errors import StoreError
from plat.store.mlflow.sqlite_place import check_place
from plat.store.mlflow.sqlite_schema import check_revision

BUSY_SECONDS = 20.0  # how long SQLite waits for another writer
_CHECKED: dict[tuple[str, int], str] = {}  # (path, inode) of files checked by this process -> schema revision


def connect(path: Path, timeout: float | None = None) -> sqlite3.Connection:
    """A read-write connection in autocommit mode (transactions are explicit), checked against the schema version.

    timeout  seconds to wait for another writer, None for BUSY_SECONDS
    """
    schema_revision(path, timeout)
    connection = sqlite3.connect(path, timeout=_seconds(timeout), isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")  # a store may lose its last import, the run directories do not
    return connection


def connect_readonly(path: Path, timeout: float | None = None) -> sqlite3.Connection:
    """A read-only connection; works in a folder that may not be written, where SQLite's WAL index cannot be made."""
    if not path.exists():
        raise StoreError("there is no store yet", where=str(path), mend="`plat sweep FILE` or `plat sync` makes it")
    schema_revision(path, timeout)
    return _open_readonly(path, timeout)


def schema_revision(path: Path, timeout: float | None = None) -> str:
    """The schema revision of this SQLite file; StoreError unless it is an MLflow store of the installed MLflow's."""
    check_place(path)
    identity = (str(path), path.stat().st_ino)
    if identity not in _CHECKED:
        with contextlib.closing(_open_readonly(path, timeout)) as connection:
            _CHECKED[identity] = check_revision(connection, path)
    return _CHECKED[identity]


def _open_readonly(path: Path, timeout: float | None) -> sqlite3.Connection:
    try:
        return _try_readonly(path, "", timeout)
    except sqlite3.OperationalError as error:
        log = path.with_name(path.name + "-wal")
        if "locked" in str(error) or (log.exists() and log.stat().st_size > 0):  # what is in the log would be missing
            raise
        with contextlib.suppress(sqlite3.Error):
            return _try_readonly(path, "&immutable=1", timeout)
        raise


def _try_readonly(path: Path, how: str, timeout: float | None) -> sqlite3.Connection:
    quoted = str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    uri = f"file:{quoted}?mode=ro{how}"
    connection = sqlite3.connect(uri, uri=True, timeout=_seconds(timeout), isolation_level=None)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens it, which connecting does not
    except BaseException:
        connection.close()
        raise
    return connection


def _seconds(timeout: float | None) -> float:
    return BUSY_SECONDS if timeout is None else timeout
