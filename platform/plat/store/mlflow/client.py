"""Access to MLflow for the whole package: a quiet client, a SQLite store made safely, and errors a user can act on.

Promised here:
- nothing of MLflow is imported before it is needed (about one second and 200 MB), and it prints nothing of its own;
- a new SQLite store appears whole or not at all: its schema is created by a short-lived process in a file beside it,
  which is then renamed, so that a kill leaves no half-made store and the caller's memory stays small;
- every way in which a store can refuse becomes a StoreError with what, where and how to mend it.

SQLite stores are otherwise used through `sqlite3` directly (`sqlite_store`, `sqlite_reader`): no MLflow import, no
per-metric round trips. Their schema version is checked against the installed MLflow's first.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from plat.errors import StoreError
from plat.store.mlflow.uri import mask_passwords, shown_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient

BUSY_SECONDS = 20.0  # how long SQLite waits for another writer
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "fuse.sshfs"}
DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
KEPT = "nothing recorded is lost: the run directories are complete, and `plat sync` imports them"
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # an unreachable server is said within seconds, not minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "GIT_PYTHON_REFRESH": "quiet",
}


def quiet() -> None:
    """Silence MLflow before its first import; what the user has set in the environment is left alone."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def mlflow_client(uri: str) -> MlflowClient:
    """A client of this store, or StoreError."""
    quiet()
    with store_errors(uri):
        _reach(uri)
        from mlflow import MlflowClient

        return MlflowClient(uri)


def _reach(uri: str) -> None:
    """Fail at once when no database server answers; MLflow itself would try for minutes."""
    parts = urlsplit(uri)
    scheme = parts.scheme.partition("+")[0]
    if parts.hostname and scheme in DATABASE_PORTS:
        socket.create_connection((parts.hostname, parts.port or DATABASE_PORTS[scheme]), timeout=10).close()


def sqlite_path(uri: str) -> Path | None:
    """The database file of a `sqlite:///` URI (made absolute), None for any other kind of store."""
    match = re.match(r"sqlite(?:\+\w+)?://(?P<rest>.*)$", uri)
    if not match:
        return None
    path = match["rest"].removeprefix("/").partition("?")[0]
    if not path or path == ":memory:":
        raise StoreError("an in-memory SQLite store would forget everything", where=uri, mend="name a file")
    return Path(path).absolute()


def artifact_root(uri: str) -> str | None:
    """Where a new MLflow experiment keeps its artifacts: beside a SQLite file; elsewhere the store decides (None)."""
    path = sqlite_path(uri)
    return str(path.parent / "mlartifacts") if path else None


def connect(path: Path, timeout: float | None = None) -> sqlite3.Connection:
    """A read-write connection in autocommit mode (transactions are explicit), checked against the schema version.

    timeout  seconds to wait for another writer, None for BUSY_SECONDS
    """
    schema_revision(path, timeout)
    connection = sqlite3.connect(path, timeout=_seconds(timeout), isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")  # a store may lose its last import, the run directories do not
    return connection


def _seconds(timeout: float | None) -> float:
    return BUSY_SECONDS if timeout is None else timeout


def connect_readonly(path: Path, timeout: float | None = None) -> sqlite3.Connection:
    """A read-only connection; works in a folder that may not be written, where SQLite's WAL index cannot be made."""
    if not path.exists():
        raise StoreError("there is no store yet", where=str(path), mend="`plat sweep FILE` or `plat sync` makes it")
    schema_revision(path, timeout)
    return _open_readonly(path, timeout)


def _open_readonly(path: Path, timeout: float | None) -> sqlite3.Connection:
    if path.is_dir():
        raise sqlite3.OperationalError("unable to open database file: it is a folder")
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


# -- schema -----------------------------------------------------------------------------------------------------------


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


@lru_cache(maxsize=1)
def schema_revisions() -> tuple[str, frozenset[str]]:
    """(newest, all) schema revisions of the installed MLflow, read from its migration files without importing it."""
    spec = importlib.util.find_spec("mlflow")
    if spec is None or not spec.submodule_search_locations:
        raise StoreError("MLflow is not installed", mend="install plat's requirements again")
    folder = Path(next(iter(spec.submodule_search_locations))) / "store" / "db_migrations" / "versions"
    known: set[str] = set()
    older: set[str] = set()
    for file in folder.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        known.update(re.findall(r"^revision\b.*?=\s*[\"'](\w+)[\"']", text, re.MULTILINE))
        older.update(re.findall(r"^down_revision\b.*?=\s*[\"'](\w+)[\"']", text, re.MULTILINE))
    return next(iter(known - older)), frozenset(known)


_CHECKED: dict[tuple[str, int], str] = {}  # (path, inode) of files checked by this process -> schema revision


def schema_revision(path: Path, timeout: float | None = None) -> str:
    """The schema revision of this SQLite file; StoreError unless it is an MLflow store of the installed MLflow's."""
    identity = (str(path), path.stat().st_ino)
    if identity in _CHECKED:
        return _CHECKED[identity]
    connection = _open_readonly(path, timeout)
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        rows = connection.execute("SELECT version_num FROM alembic_version").fetchall() if "runs" in tables else []
    finally:
        connection.close()
    if not rows:
        raise StoreError(
            "this file is not an MLflow store",
            where=str(path),
            mend=f"move it away or name another with --store; {KEPT}",
        )
    revision = str(rows[0][0])
    newest, known = schema_revisions()
    if revision == newest:
        _CHECKED[identity] = revision
        return revision
    if revision in known:
        raise StoreError(
            f"the store has an older MLflow's schema ({revision}; the installed MLflow wants {newest})",
            where=str(path),
            mend=f"copy it, then run `mlflow db upgrade sqlite:///{path}`; {KEPT}",
        )
    raise StoreError(
        f"the store was written by a newer MLflow (schema {revision}, unknown to the installed one)",
        where=str(path),
        mend=f"upgrade mlflow, or choose another store with --store; {KEPT}",
    )


# -- errors -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def store_errors(uri: str) -> Iterator[None]:
    """Turn what SQLite, the operating system, MLflow or the network raise inside into a StoreError."""
    try:
        yield
    except StoreError:
        raise
    except (sqlite3.Error, OSError, ImportError) as error:
        raise _explain(uri, str(error), error) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("mlflow", "sqlalchemy", "requests", "urllib3", "alembic"):
            raise _explain(uri, str(error), error) from error
        raise


_CAUSES = (  # (pattern in the message, what, how to mend it)
    (r"locked|busy", "the store is locked by another program", "close what holds it open for writing and try again"),
    (r"disk is full|No space left", "the disk is full", "free some space"),
    (r"readonly|read-only|unable to open|Permission denied|Is a directory|Not a directory|File exists",
     "the store cannot be written or opened", "make the file and its folder writable, or choose another with --store"),
    (r"not a database|malformed", "the store is damaged",
     "move the file away (a new one is filled from the run directories), or restore a copy"),
    (r"disk I/O", "the disk reported an error", "check the disk and free some space"),
    (r"out-of-date database schema|Can't locate revision", "the store has another MLflow version's schema",
     "run `mlflow db upgrade` on it, or install the MLflow that wrote it"),
    (r"Max retries|Connection refused|ConnectionError|timed out|Name or service not known|resolve|API request|"
     r"could not connect|could not translate|connection to server",
     "the MLflow server cannot be reached", "start it, check --store (MLFLOW_TRACKING_URI), and try again"),
    (r"maintenance mode|file store|filesystem tracking", "MLflow no longer supports stores in plain folders",
     "use sqlite:///FILE.db or a server as --store"),
    (r"No module named", "a driver for this kind of store is not installed", "install it (for PostgreSQL: psycopg)"),
)  # fmt: skip


def _explain(uri: str, message: str, error: BaseException) -> StoreError:
    where = shown_uri(uri)
    for pattern, what, mend in _CAUSES:
        if re.search(pattern, message, re.IGNORECASE):
            return StoreError(what, where=where, mend=f"{mend}; {KEPT}")
    first = next((line for line in message.splitlines() if line.strip()), type(error).__name__)
    return StoreError(f"the store refused: {mask_passwords(first.strip())[:300]}", where=where, mend=KEPT)
