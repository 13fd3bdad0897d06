"""Homes that were moved or copied: their artifacts are looked for, and written, beside their own store again.

MLflow keeps the place of every experiment's and run's artifacts as an absolute path. In a home that was moved these
lead nowhere; in a copy they lead into the original, which the copy would then change. So when the store of a home is
opened for writing, the paths that lead below another home's `mlartifacts` are rewritten to this home's own.

Promised: only paths of the form `<other home>/mlartifacts/...` are rewritten, and only where the other folder is a home
that still exists, or where the artifacts lie in this home; all of them at once, in one transaction. Artifacts that a
user keeps anywhere else stay where they are. A store that was copied without its artifacts is refused.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from plat.errors import StoreError
from plat.store.mlflow.sqlite_connection import connect, connect_readonly
from plat.store.mlflow.sqlite_place import ARTIFACTS
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import sqlite_path

_COLUMNS = (("experiments", "artifact_location"), ("runs", "artifact_uri"))


def is_moved(uri: str) -> bool:
    """Whether this is the SQLite store of a home, its artifacts are recorded elsewhere, and that can be mended here."""
    path = sqlite_path(uri)
    if path is None or not path.exists() or not all(os.access(place, os.W_OK) for place in (path, path.parent)):
        return False
    with store_errors(uri), closing(connect_readonly(path)) as connection:
        return bool(_foreign_roots(connection, path))


def adopt_artifacts(uri: str, timeout: float | None = None) -> None:
    """Rewrite the places of artifacts of a moved or copied home's store; does nothing to any other store.

    Hold the import lock. StoreError when the store was copied without its artifacts.
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
            if not own.exists() and _exists(Path(root)):
                raise StoreError(
                    "this store was copied from another home without its artifacts",
                    where=str(path),
                    mend=f"copy them, too: cp -r {root} {own}",
                )
        connection.execute("BEGIN IMMEDIATE")
        for root in roots:
            for prefix in (f"{root}/", f"file://{root}/"):
                for table, column in _COLUMNS:
                    connection.execute(
                        f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?",
                        (f"{own}/", len(prefix) + 1, len(prefix), prefix),
                    )
        connection.execute("COMMIT")


def _foreign_roots(connection: sqlite3.Connection, path: Path) -> list[str]:
    """The `mlartifacts` folders of other homes that the experiments of this home's store name."""
    if not (path.parent / "home.json").exists():
        return []
    own = path.parent / ARTIFACTS
    roots = set()
    for (location,) in connection.execute("SELECT artifact_location FROM experiments"):
        folder = Path((location or "").removeprefix("file://"))
        root = folder.parent
        if root.name != ARTIFACTS or not root.is_absolute() or _same(root.parent, path.parent):
            continue
        if _exists(root.parent / "home.json") or (own / folder.name).is_dir():
            roots.add(str(root))
    return sorted(roots)


def _same(first: Path, second: Path) -> bool:
    """Whether two paths name one folder, through symbolic links or not."""
    if first == second:
        return True
    try:
        return first.samefile(second)
    except OSError:
        return False


def _exists(path: Path) -> bool:
    """Whether the path can be seen to exist; a place that may not be looked into counts as absent."""
    try:
        return path.exists()
    except OSError:
        return False
