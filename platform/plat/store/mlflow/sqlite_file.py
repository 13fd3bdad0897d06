"""Handle the file of a SQLite store from outside: its place, its creation, its locks, and whether it has changed.

Its tables are MLflow's own business: they are read and written through MLflow's client alone.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import lzma
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from plat.errors import StoreError
from plat.plain_files import read_bytes
from plat.store.disk.durable import file_system, locked, scratch_name, write_file
from plat.store.mlflow.store_errors import KEPT, REFILL, store_errors
from plat.store.mlflow.uri import ARTIFACTS, sqlite_path

LOCK_SECONDS = 120.0  # how long to wait for another process that writes into the same file
BUSY_SECONDS = 20.0  # how long SQLite waits for another program
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "fuse.sshfs"}
NEEDED = frozenset({"alembic_version", "experiments", "runs", "tags", "params", "metrics"})
_KINDS = ((stat.S_ISREG, "a file"), (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))


def has_content(path: Path) -> bool:
    """Return True if the file of a store exists and is not empty."""
    return path.exists() and path.stat().st_size > 0


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


def check_file(path: Path, timeout: float | None = None, *, to_write: bool = False) -> None:
    """Raise StoreError unless this is a file with MLflow's tables, which MLflow would otherwise make in it.

    to_write  also raise if another program holds it for `timeout` seconds (None: BUSY_SECONDS)
    """
    check_place(path)
    if not has_content(path):
        fix = "`plat sweep FILE` makes it; `plat import DIR` makes it from a bundle, such as those in results/"
        raise StoreError("there is no store yet", where=str(path), fix=fix)
    with store_errors(f"sqlite:///{path}"), contextlib.closing(_opened(path, timeout, to_write)) as file:
        tables = {str(row[0]) for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        missing = NEEDED - tables
        if 2 * len(missing) >= len(NEEDED):  # other programs also have tables named runs or tags
            fix = f"move it away or name another with --store; {KEPT}"
            raise StoreError("this file is not an MLflow store", where=str(path), fix=fix)
        if missing:
            what = f"the store is damaged: its table {min(missing)} is gone"
            raise StoreError(what, where=str(path), fix=REFILL)
        if to_write:
            file.execute("BEGIN IMMEDIATE")  # takes the write lock, and writes nothing
            file.execute("ROLLBACK")


def _opened(path: Path, timeout: float | None, to_write: bool) -> sqlite3.Connection:
    """Open a file; for reading also in a read-only folder, where SQLite cannot create the index of its log."""
    seconds = BUSY_SECONDS if timeout is None else timeout
    if to_write:
        return sqlite3.connect(path, timeout=seconds, isolation_level=None)
    log = path.with_name(f"{path.name}-wal")
    may_lock = os.access(path.parent, os.W_OK) or (log.exists() and log.stat().st_size > 0)
    mode = "mode=ro" if may_lock else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=seconds)


@contextlib.contextmanager
def store_lock(uri: str, timeout: float | None = None) -> Iterator[None]:
    """Hold the lock that all importers into one SQLite store share, of whatever home; other stores have none.

    Raises StoreError if another process holds it for `timeout` seconds (None: LOCK_SECONDS).
    """
    path = sqlite_path(uri)
    if path is None:
        yield
        return
    check_place(path)
    seconds = LOCK_SECONDS if timeout is None else timeout
    busy = StoreError(
        f"another home has been importing into this store for {seconds:.0f} s",
        where=str(path),
        fix=f"wait for it or end that process; {KEPT}",
    )
    with store_errors(uri):
        path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(f".{path.name}.lock"), seconds, busy):
        yield


def ensure_sqlite(uri: str) -> Path:
    """Create the SQLite store if it is missing, completely or not at all, and return its path.

    MLflow takes four seconds to create one, so a copy of an empty store that MLflow has made travels with plat. With
    another version of MLflow its client creates the store. The caller holds the lock of the store. Raises StoreError if
    the path is not usable.
    """
    path = sqlite_path(uri)
    assert path is not None, uri
    check_place(path)
    if has_content(path) or not packaged_store().exists():
        return path
    with store_errors(uri):
        path.parent.mkdir(parents=True, exist_ok=True)
        for piece in path.parent.glob(f".tmp-{path.name}*"):  # of a killed process
            piece.unlink(missing_ok=True)
        scratch = scratch_name(path)
        try:
            write_file(scratch, lzma.decompress(read_bytes(packaged_store())))
            # SQLite's write-ahead log does not work on a network file system
            if file_system(scratch.parent) not in NETWORK_FILE_SYSTEMS:
                with contextlib.closing(sqlite3.connect(scratch)) as file:
                    file.execute("PRAGMA journal_mode = WAL")
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
    return path


def packaged_store() -> Path:
    """Return the path of the compressed empty store of the installed MLflow; the file may not exist.

    Raises StoreError if MLflow is not installed.
    """
    try:
        version = importlib.metadata.version("mlflow")
    except importlib.metadata.PackageNotFoundError as error:
        raise StoreError("MLflow is not installed", fix="install plat's requirements again") from error
    return Path(__file__).with_name(f"empty_store_{version}.db.xz")


def read_only_uri(path: Path) -> str | None:
    """Return the URI under which SQLAlchemy opens a store that this process may not write to; None if it may.

    In a read-only folder SQLite cannot create the index of its log, which it does not need if nobody writes."""
    log = path.with_name(f"{path.name}-wal")
    if (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)) or (log.exists() and log.stat().st_size > 0):
        return None
    return f"sqlite:///file:{quote(str(path))}?mode=ro&immutable=1&uri=true"


def settle(path: Path) -> None:
    """Move what lies in the log of a store into its file, as far as no reader prevents it, so that its stamp stays."""
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path, timeout=1.0)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def stamp(path: Path) -> list[int] | None:
    """Return numbers that change whenever the store is written to; None if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    numbers = [status.st_size, status.st_mtime_ns]
    with contextlib.suppress(OSError):
        log = os.stat(f"{path}-wal")
        numbers += [log.st_size, log.st_mtime_ns] if log.st_size else []
    return numbers
