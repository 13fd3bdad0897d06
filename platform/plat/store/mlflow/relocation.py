"""Fix the artifact paths in the store of a home that was moved or copied.

MLflow stores absolute artifact paths. After a move they lead nowhere; in a copy they lead into the original home, which
the copy would then change. Only paths `<other home>/mlartifacts/...` are rewritten, in one transaction, and only if
the other home still exists or the artifacts are in this home. All other paths stay.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from plat.errors import StoreError
from plat.store.mlflow.sqlite_connection import connect, connect_readonly, transaction
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import ARTIFACTS, sqlite_path

_COLUMNS = (("experiments", "artifact_location"), ("runs", "artifact_uri"))


def is_moved(uri: str) -> bool:
    """Return True if this is a home's SQLite store with artifact paths of another home, and it is writable.

    Raises StoreError if it cannot be read.
    """
    path = sqlite_path(uri)
    if path is None or not path.exists() or not all(os.access(place, os.W_OK) for place in (path, path.parent)):
        return False
    with store_errors(uri), closing(connect_readonly(path)) as connection:
        return bool(_foreign_roots(connection, path))


def adopt_artifacts(uri: str, timeout: float | None = None) -> None:
    """Rewrite the artifact paths in the store of a moved or copied home; leave any other store unchanged.

    The caller holds the import lock. Raises StoreError if the store was copied without its artifacts.
    """
    path = sqlite_path(uri)
    if path is None:
        return
    with store_errors(uri), closing(connect(path, timeout)) as connection:
        roots = _foreign_roots(connection, path)
        if not roots:
            return
        own = path.parent / ARTIFACTS
        for root in roots:
            if not own.exists() and os.path.exists(root):
                raise StoreError(
                    "this store was copied from another home without its artifacts",
                    where=str(path),
                    fix=f"copy them, too: cp -r {root} {own}",
                )
        with transaction(connection):
            for prefix in (f"{scheme}{root}/" for root in roots for scheme in ("", "file://")):
                for table, column in _COLUMNS:
                    connection.execute(
                        f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?",
                        (f"{own}/", len(prefix) + 1, len(prefix), prefix),
                    )


def _foreign_roots(connection: sqlite3.Connection, path: Path) -> list[str]:
    """Return the `mlartifacts` folders of other homes that are to be rewritten in this home's store, sorted."""
    if not (path.parent / "home.json").exists():
        return []
    own = path.parent / ARTIFACTS
    roots = set()
    for (location,) in connection.execute("SELECT artifact_location FROM experiments"):
        folder = Path((location or "").removeprefix("file://"))
        root = folder.parent
        if root.name != ARTIFACTS or not root.is_absolute() or _same(root.parent, path.parent):
            continue
        if os.path.exists(root.parent / "home.json") or (own / folder.name).is_dir():
            roots.add(str(root))
    return sorted(roots)


def _same(first: Path, second: Path) -> bool:
    """Return True if two paths name one folder, through symbolic links or not."""
    with suppress(OSError):
        return first.samefile(second)
    return first == second
