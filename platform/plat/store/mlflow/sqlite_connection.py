"""Open connections to the SQLite file of a store, after a check of its path and of its schema revision.

The path is checked first: opening a pipe would block, and SQLite reports a folder as a permission problem.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from plat.errors import StoreError
from plat.store.mlflow.store_errors import KEPT, REFILL
from plat.store.mlflow.uri import ARTIFACTS

BUSY_SECONDS = 20.0  # how long SQLite waits for another writer
_CHECKED: dict[tuple[str, int], str] = {}  # (path, inode) of files checked by this process -> schema revision
NEEDED = frozenset({"alembic_version", "experiments", "runs", "tags", "params", "metrics", "latest_metrics"})
_COLUMNS = "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"


_KINDS = ((stat.S_ISREG, "a file"), (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))


def has_content(path: Path) -> bool:
    """Return True if the file of a store exists and is not empty."""
    return path.exists() and path.stat().st_size > 0


def connect(path: Path, timeout: float | None = None) -> sqlite3.Connection:
    """Open an existing file read-write in autocommit mode (transactions are explicit), after a check of the schema.

    timeout  seconds to wait for another writer, None for BUSY_SECONDS

    Raises StoreError if the file is no store of the installed MLflow's schema.
    """
    schema_revision(path, timeout)
    connection = sqlite3.connect(path, timeout=_seconds(timeout), isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")  # a crash may lose the last import: run directories have it
    return connection


def connect_readonly(path: Path, timeout: float | None = None) -> sqlite3.Connection:
    """Open a read-only connection, even in a read-only folder; raises StoreError if there is no usable store."""
    if not path.exists():
        raise StoreError("there is no store yet", where=str(path), fix="`plat sweep FILE` or `plat sync` makes it")
    schema_revision(path, timeout)
    return _open_readonly(path, timeout)


def schema_revision(path: Path, timeout: float | None = None) -> str:
    """Return the schema revision of this SQLite file; raises StoreError unless it is the installed MLflow's newest."""
    check_place(path)
    identity = (str(path), path.stat().st_ino)
    if identity not in _CHECKED:
        with contextlib.closing(_open_readonly(path, timeout)) as connection:
            _CHECKED[identity] = _check_revision(connection, path)
    return _CHECKED[identity]


def check_place(path: Path) -> None:
    """Raise StoreError if `path` exists and is no file, or if something else is at the place of its artifact folder."""
    kind = _kind(path)
    if kind not in ("", "a file"):
        raise StoreError(
            f"the store's file is {kind}",
            where=str(path),
            fix="move it away, and `plat sync` fills a new store from the run directories; "
            "or choose another with --store",
        )
    artifacts = path.parent / ARTIFACTS
    kind = _kind(artifacts) or ("a link that leads nowhere" if artifacts.is_symlink() else "")
    if kind not in ("", "a folder"):
        raise StoreError(
            f"the folder of the store's artifacts is {kind}",
            where=str(artifacts),
            fix="move it away, and `plat doctor --fix` restores the artifacts from the run directories",
        )


def _kind(path: Path) -> str:
    """Return the kind of a path in words, "" if it is absent or cannot be inspected."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return ""
    return next((name for holds, name in _KINDS if holds(mode)), "a device")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block in one exclusive write transaction; any exception rolls it back.

    Waits for another writer as long as the timeout of `connection` says, then raises sqlite3.OperationalError.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # on a full disk SQLite has rolled back by itself
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _open_readonly(path: Path, timeout: float | None) -> sqlite3.Connection:
    try:
        return _try_readonly(path, "", timeout)
    except sqlite3.OperationalError as error:
        log = path.with_name(path.name + "-wal")
        if "locked" in str(error) or (log.exists() and log.stat().st_size > 0):  # immutable mode ignores the log
            raise
        with contextlib.suppress(sqlite3.Error):  # in a read-only folder SQLite cannot create its WAL index
            return _try_readonly(path, "&immutable=1", timeout)
        raise


def _try_readonly(path: Path, how: str, timeout: float | None) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro{how}"
    connection = sqlite3.connect(uri, uri=True, timeout=_seconds(timeout), isolation_level=None)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the file; connect does not
    except BaseException:
        connection.close()
        raise
    return connection


def _seconds(timeout: float | None) -> float:
    return BUSY_SECONDS if timeout is None else timeout


# --- the schema -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def schema_revisions() -> tuple[str, frozenset[str]]:
    """Return (newest, all) schema revisions in the installed MLflow's files; raises StoreError without MLflow."""
    spec = importlib.util.find_spec("mlflow")
    if spec is None or not spec.submodule_search_locations:
        raise StoreError("MLflow is not installed", fix="install plat's requirements again")
    folder = Path(next(iter(spec.submodule_search_locations))) / "store" / "db_migrations" / "versions"
    known: set[str] = set()
    older: set[str] = set()
    for file in folder.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        known.update(re.findall(r"^revision\b.*?=\s*[\"'](\w+)[\"']", text, re.MULTILINE))
        older.update(re.findall(r"^down_revision\b.*?=\s*[\"'](\w+)[\"']", text, re.MULTILINE))
    return next(iter(known - older)), frozenset(known)


class IncompleteStore(StoreError):
    """An error: a part of the schema is missing from the file of a store."""

    def __init__(self, what: str, path: Path) -> None:
        super().__init__(f"the store is damaged: {what}", where=str(path), fix=REFILL)


def _check_revision(connection: sqlite3.Connection, path: Path) -> str:
    """Return the schema revision of the open file.

    Raises StoreError unless it is the newest of the installed MLflow, and IncompleteStore if tables are missing."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    missing = NEEDED - tables
    if 2 * len(missing) >= len(NEEDED):  # other programs also have tables named runs or tags
        raise StoreError(
            "this file is not an MLflow store",
            where=str(path),
            fix=f"move it away or name another with --store; {KEPT}",
        )
    if missing:
        raise IncompleteStore(f"its table {sorted(missing)[0]} is gone", path)
    rows = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    if not rows:
        raise IncompleteStore("its table alembic_version is empty", path)
    revision = str(rows[0][0])
    newest, known = schema_revisions()
    if revision == newest:
        return revision
    if revision in known:
        raise StoreError(
            f"the store has an older MLflow's schema ({revision}; the installed MLflow wants {newest})",
            where=str(path),
            fix=f"copy it, then run `mlflow db upgrade sqlite:///{path}`; {KEPT}",
        )
    raise StoreError(
        f"the store was written by a newer MLflow (schema {revision}, unknown to the installed one)",
        where=str(path),
        fix=f"upgrade mlflow, or choose another store with --store; {KEPT}",
    )


def lost_column(connection: sqlite3.Connection, revision: str) -> str:
    """Return the first `table.column` that the store lacks, "" if none or if plat has no schema of this revision."""
    schema = schema_file(revision)
    if not schema.exists():
        return ""
    with contextlib.closing(sqlite3.connect(":memory:")) as new:
        new.executescript(schema.read_text(encoding="utf-8"))
        lost = {tuple(row) for row in new.execute(_COLUMNS)} - {tuple(row) for row in connection.execute(_COLUMNS)}
    return ".".join(min(lost)) if lost else ""


def schema_file(revision: str) -> Path:
    """Return the path of the SQL that creates the tables of this revision; the file may not exist."""
    return Path(__file__).with_name(f"empty_store_{revision}.sql")
