"""Makes the SQLite file of a new store, whole or not at all.

Its schema is created by a short-lived process in a file beside it, which is then renamed. So a kill leaves no half-made
store, and the caller's memory stays small.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from plat.errors import StoreError
from plat.store.mlflow.client import QUIET
from plat.store.mlflow.store_errors import KEPT, store_errors
from plat.store.mlflow.uri import mask_passwords, sqlite_path

NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "fuse.sshfs"}


def ensure_sqlite(uri: str) -> Path:
    """Make the SQLite store if there is none (call it under the import lock); its path."""
    path = sqlite_path(uri)
    assert path is not None, uri
    if path.exists() and path.stat().st_size > 0:
        return path
    with store_errors(uri):
        path.parent.mkdir(parents=True, exist_ok=True)
        for stale in path.parent.glob(f".{path.name}.creating-*"):
            stale.unlink()
    scratch = path.with_name(f".{path.name}.creating-{os.getpid()}")
    journal = "DELETE" if on_network_disk(path.parent) else "WAL"
    environment = {**os.environ, **QUIET, "MLFLOW_TRACKING_URI": f"sqlite:///{scratch}"}
    made = subprocess.run(
        [sys.executable, "-c", _CREATE, str(scratch), journal], env=environment, capture_output=True, text=True
    )
    if made.returncode != 0 or not scratch.exists():
        for piece in path.parent.glob(f"{scratch.name}*"):
            with contextlib.suppress(OSError):
                piece.unlink()
        raise StoreError(
            f"the MLflow store could not be created: {mask_passwords(_cause(made.stderr)) or made.returncode}",
            where=str(path),
            mend=f"make the folder writable and free some disk space; {KEPT}",
        )
    with store_errors(uri):
        scratch.replace(path)
    return path


def _cause(output: str) -> str:
    """The line of a traceback that names the error; what follows it (SQL, a link) does not."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "Error" in line), lines[-1] if lines else "")


_CREATE = """
import sqlite3, sys
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
path, journal = sys.argv[1:]
SqlAlchemyStore("sqlite:///" + path, path + "-artifacts")._dispose_engine()
connection = sqlite3.connect(path)
connection.execute("UPDATE experiments SET artifact_location = replace(artifact_location, ?, 'mlartifacts')",
                   (path.rpartition("/")[2] + "-artifacts",))
connection.commit()
connection.execute(f"PRAGMA journal_mode = {journal}")
connection.close()
"""


def on_network_disk(folder: Path) -> bool:
    """Whether the folder lies on a network file system, where SQLite's WAL does not work."""
    import psutil

    folder = folder.resolve()
    mounts = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    nearest = next((parent for parent in (folder, *folder.parents) if parent in mounts), None)
    return nearest is not None and mounts[nearest].lower() in NETWORK_FILE_SYSTEMS
