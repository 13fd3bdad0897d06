"""Create the SQLite file of a new store, completely or not at all.

The tables are those of `empty_store_<revision>.sql`, because MLflow takes seconds to create them. If the installed
MLflow has another schema revision, a short-lived process with MLflow creates them.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from plat.errors import StoreError
from plat.store.disk.durable import locked, write_file
from plat.store.disk.file_system import file_system
from plat.store.mlflow.mlflow_client import QUIET
from plat.store.mlflow.sqlite_connection import check_place, has_content, schema_file, schema_revisions
from plat.store.mlflow.store_errors import KEPT, store_errors
from plat.store.mlflow.uri import mask_passwords, sqlite_path

MAKING_SECONDS = 120.0  # how long to wait for another process that creates the store
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "fuse.sshfs"}
DEFAULT_EXPERIMENT = "INSERT INTO experiments VALUES (0, 'Default', ?, 'active', ?, ?, 'default')"


def ensure_sqlite(uri: str) -> Path:
    """Create the SQLite store if it is missing and return its path.

    Raises StoreError if the path is not usable, HomeError if the lock file beside it cannot be locked.
    """
    path = sqlite_path(uri)
    assert path is not None, uri
    check_place(path)
    if has_content(path):
        return path
    with store_errors(uri):
        path.parent.mkdir(parents=True, exist_ok=True)
        # several homes may import into one store, each under its own import lock
        with locked(path.with_name(f".{path.name}.lock"), MAKING_SECONDS):
            if not has_content(path):  # another process may have created it
                _make(path)
    return path


def _make(path: Path) -> None:
    """Create the store in a scratch file and rename it. The caller holds the store's lock."""
    _remove(path)
    scratch = path.with_name(f".{path.name}.creating-{os.getpid()}")
    schema = schema_file(schema_revisions()[0])
    try:
        write_file(scratch, b"")  # with the permissions of the umask: SQLite itself gives none to the group
        if schema.exists():
            make_from_schema(scratch, schema)
        else:
            make_with_mlflow(scratch, path)
        # SQLite's write-ahead log does not work on a network file system
        journal = "DELETE" if file_system(scratch.parent) in NETWORK_FILE_SYSTEMS else "WAL"
        with contextlib.closing(sqlite3.connect(scratch)) as database:
            database.execute(f"PRAGMA journal_mode = {journal}")
    except BaseException:
        _remove(path)
        raise
    scratch.replace(path)


def make_from_schema(file: Path, schema: Path) -> None:
    """Create the tables of the SQL file `schema`, and MLflow's default experiment."""
    now = int(time.time() * 1000)
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.executescript(f"BEGIN; {schema.read_text(encoding='utf-8')}")
        database.execute(DEFAULT_EXPERIMENT, (f"{file.parent}/mlartifacts/0", now, now))


def make_with_mlflow(file: Path, path: Path) -> None:
    """Create the SQLite store `file` with its tables, in a process with MLflow.

    Raises StoreError if that fails; the error names `path`, the final place of the store.
    """
    environment = {**os.environ, **QUIET, "MLFLOW_TRACKING_URI": f"sqlite:///{file}"}
    made = subprocess.run(
        [sys.executable, "-P", "-c", _CREATE, str(file)], env=environment, capture_output=True, text=True
    )
    if made.returncode != 0 or not file.exists():
        raise StoreError(
            f"the MLflow store could not be created: {mask_passwords(_cause(made.stderr)) or made.returncode}",
            where=str(path),
            fix=f"make the folder writable and free some disk space; {KEPT}",
        )


def _remove(path: Path) -> None:
    """Remove the scratch files of an interrupted creation. The caller holds the store's lock."""
    for piece in path.parent.glob(f".{path.name}.creating-*"):
        with contextlib.suppress(OSError):
            piece.unlink()


def _cause(output: str) -> str:
    """Return the last line of a traceback that names an error, else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "Error" in line), lines[-1] if lines else "")


_CREATE = """
import sqlite3, sys
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
path = sys.argv[1]
SqlAlchemyStore("sqlite:///" + path, path + "-artifacts")._dispose_engine()
connection = sqlite3.connect(path)
connection.execute("UPDATE experiments SET artifact_location = replace(artifact_location, ?, 'mlartifacts')",
                   (path.rpartition("/")[2] + "-artifacts",))
connection.commit()
connection.close()
"""
