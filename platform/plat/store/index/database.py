"""Read and write the SQLite file of the index. A missing, damaged or locked file reads as an empty index.

Each row has a checksum; rows that were edited or damaged are skipped. Writes are rare, each one transaction for many
runs. If another process is writing, the write is dropped after WAIT seconds: the next reader saves the same rows.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from plat.plain_files import is_special
from plat.store.home import Home

FORMAT = 4  # of the tables; a file of another format is replaced
WAIT = 0.5  # seconds to wait for another process that writes
AT_ONCE = 500  # ids in one query: SQLite has a limit

# One table for each kind of file, with its columns after id and stamp.
TABLES = {
    "results": ("outcome", "step", "success", "iterations", "attempt", "ended", "reason"),
    "metas": ("name", "axes", "experiments", "searches", "config_sha256", "needs", "iterations"),
    "configs": ("pairs",),
}
T = TypeVar("T")


def index_path(home: Home) -> Path:
    return home.root / "index.db"


def read_rows(home: Home, table: str, ids: Sequence[str] | None = None) -> dict[str, tuple[Any, ...]]:
    """Return id -> (id, stamp, *columns of TABLES) of these runs, or of all; without damaged rows."""
    select = f"SELECT checksum, id, stamp, {', '.join(TABLES[table])} FROM {table}"

    def read(database: sqlite3.Connection) -> dict[str, tuple[Any, ...]]:
        if ids is None:
            return dict(_whole(database.execute(select)))
        rows: dict[str, tuple[Any, ...]] = {}
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE]
            query = f"{select} WHERE id IN ({','.join('?' * len(some))})"
            rows.update(_whole(database.execute(query, some)))
        return rows

    return _read(home, read) or {}


def save_rows(home: Home, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Save rows (id, stamp, *columns); each replaces the row of the same id. Drops them if the file is locked."""
    places = ",".join("?" * (3 + len(TABLES[table])))
    checked = ((_checksum(tuple(row)), *row) for row in rows)
    _write(home, lambda database: database.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({places})", checked))


def forget_rows(home: Home, ids: Sequence[str]) -> None:
    """Delete the rows of removed runs, to keep the file small. The index is also correct with these rows."""

    def forget(database: sqlite3.Connection) -> None:
        for table in TABLES:
            database.executemany(f"DELETE FROM {table} WHERE id = ?", ((run_id,) for run_id in ids))

    _write(home, forget)


def read_pairs(home: Home) -> list[tuple[int, str, str]]:
    """Return (number, key, value) of all pairs; remove the index and return [] if a pair is damaged."""
    query = "SELECT checksum, number, key, value FROM pairs"
    rows = _read(home, lambda database: database.execute(query).fetchall()) or []
    pairs = dict(_whole(rows))
    if len(pairs) < len(rows):  # every config with the damaged pair is wrong, and the pair is unknown
        _remove(index_path(home))
        return []
    return list(pairs.values())


def number_pairs(home: Home, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Give a number to each new pair, and return (key, value) -> number for all pairs of the index.

    New pairs that cannot be saved are absent.
    """
    known = {(key, value): number for number, key, value in read_pairs(home)}
    new = sorted(set(pairs) - known.keys())

    def add(database: sqlite3.Connection) -> None:
        (last,) = database.execute("SELECT coalesce(max(number), 0) FROM pairs").fetchone()
        rows = [(number, key, value) for number, (key, value) in enumerate(new, start=last + 1)]
        query = "INSERT OR IGNORE INTO pairs (checksum, number, key, value) VALUES (?, ?, ?, ?)"
        database.executemany(query, ((_checksum(row), *row) for row in rows))

    if new:
        _write(home, add)
    return {(key, value): number for number, key, value in read_pairs(home)} if new else known


def _checksum(row: tuple[Any, ...]) -> int:
    return crc32(repr(row).encode(errors="surrogatepass"))


def _whole(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield (first column, columns) of each row (checksum, *columns) whose checksum is right."""
    for checksum, *columns in rows:
        row = tuple(columns)
        if checksum == _checksum(row):
            yield row[0], row


def _read(home: Home, read: Callable[[sqlite3.Connection], T]) -> T | None:
    """Return the result of `read`; None if there is no index, or it cannot be used."""
    path = index_path(home)
    if not path.exists() or is_special(path):
        return None
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=WAIT)) as database:
            return read(database) if _is_usable(database) else None
    except sqlite3.Error:
        return None


def _write(home: Home, write: Callable[[sqlite3.Connection], object]) -> None:
    """Write in one transaction; do nothing in a read-only home, or if the file is locked or the disk full."""
    path = index_path(home)
    if not (home.exists() and os.access(home.root, os.W_OK)):
        return
    if is_special(path):  # opening a pipe would block
        _remove(path)
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=WAIT, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            if not _is_usable(database):
                _make_tables(database)
            write(database)
            database.execute("COMMIT")
    except sqlite3.OperationalError:
        return  # another process writes, or the disk is full: the next reader saves the rows
    except sqlite3.DatabaseError:  # damaged: the next write creates the file again
        _remove(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # a read-only home
        for name in (f"{path.name}-journal", path.name):
            path.with_name(name).unlink(missing_ok=True)


def _is_usable(database: sqlite3.Connection) -> bool:
    return bool(database.execute("PRAGMA user_version").fetchone()[0] == FORMAT)


def _make_tables(database: sqlite3.Connection) -> None:
    first = "checksum, id TEXT PRIMARY KEY, stamp TEXT NOT NULL"
    tables = {table: f"({first}, {', '.join(columns)}) WITHOUT ROWID" for table, columns in TABLES.items()}
    tables["pairs"] = "(checksum, number INTEGER PRIMARY KEY, key TEXT, value TEXT, UNIQUE (key, value))"
    for table, columns in tables.items():
        database.execute(f"DROP TABLE IF EXISTS {table}")
        database.execute(f"CREATE TABLE {table} {columns}")
    database.execute(f"PRAGMA user_version = {FORMAT}")
