"""Makes the SQLite file of a new store, whole or not at all.

It is made in a file beside it, which is then renamed, so a kill leaves no half-made store. Several homes may import
into one store, each under its own import lock; a lock beside the store lets one process make it. Its tables are those
of `empty_store_<revision>.sql`: to let MLflow make them takes seconds and memory. When the installed MLflow has another
schema revision, a short-lived process with MLflow makes them.
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
from plat.store.durable import locked, write_file
from plat.store.mlflow.client import QUIET
from plat.store.mlflow.sqlite_place import check_place
from plat.store.mlflow.sqlite_schema import schema_file, schema_revisions
from plat.store.mlflow.store_errors import KEPT, store_errors
from plat.store.mlflow.uri import mask_passwords, sqlite_path

MAKING_SECONDS = 120.0  # how long to wait for another process that makes the store
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "fuse.sshfs"}
DEFAULT_EXPERIMENT = "INSERT INTO experiments VALUES (0, 'Default', ?, 'active', ?, ?, 'default')"


def ensure_sqlite(uri: str) -> Path:
    """Make the SQLite store if there is none; its path. StoreError where something else is in its place."""
    path = sqlite_path(uri)
    assert path is not None, uri
    check_place(path)
    if _is_there(path):
        return path
    with store_errors(uri):
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name(f".{path.name}.lock"), MAKING_SECONDS):
            if not _is_there(path):  # another process may have been faster
                _make(path)
    return path


def _is_there(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _make(path: Path) -> None:
    """Make the store, under its lock."""
    _remove(path)
    scratch = path.with_name(f".{path.name}.creating-{os.getpid()}")
    schema = schema_file(schema_revisions()[0])
    try:
        write_file(scratch, b"")  # with the rights that the umask gives: SQLite itself gives none to the group
        if schema.exists():
            make_from_schema(scratch, schema)
        else:
            make_with_mlflow(scratch, path)
        _set_journal(scratch)
    except BaseException:
        _remove(path)
        raise
    scratch.replace(path)


def make_from_schema(file: Path, schema: Path) -> None:
    """The tables that a file of SQL statements makes, and MLflow's default experiment."""
    now = int(time.time() * 1000)
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.executescript(f"BEGIN; {schema.read_text(encoding='utf-8')}")
        database.execute(DEFAULT_EXPERIMENT, (f"{file.parent}/mlartifacts/0", now, now))


def make_with_mlflow(file: Path, path: Path) -> None:
    """Let a process with MLflow make the tables; StoreError about the store at `path` when it cannot."""
    environment = {**os.environ, **QUIET, "MLFLOW_TRACKING_URI": f"sqlite:///{file}"}
    made = subprocess.run([sys.executable, "-c", _CREATE, str(file)], env=environment, capture_output=True, text=True)
    if made.returncode != 0 or not file.exists():
        raise StoreError(
            f"the MLflow store could not be created: {mask_passwords(_cause(made.stderr)) or made.returncode}",
            where=str(path),
            mend=f"make the folder writable and free some disk space; {KEPT}",
        )


def _set_journal(file: Path) -> None:
    journal = "DELETE" if on_network_disk(file.parent) else "WAL"
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute(f"PRAGMA journal_mode = {journal}")


def _remove(path: Path) -> None:
    """Remove what was left in making the store at `path`, under its lock."""
    for piece in path.parent.glob(f".{path.name}.creating-*"):
        with contextlib.suppress(OSError):
            piece.unlink()


def _cause(output: str) -> str:
    """The line of a traceback that names the error; what follows it (SQL, a link) does not."""
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


def on_network_disk(folder: Path) -> bool:
    """Whether the folder lies on a network file system, where SQLite's WAL does not work."""
    import psutil

    folder = folder.resolve()
    mounts = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    nearest = next((parent for parent in (folder, *folder.parents) if parent in mounts), None)
    return nearest is not None and mounts[nearest].lower() in NETWORK_FILE_SYSTEMS
