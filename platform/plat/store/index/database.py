"""The SQLite file of the index. Whatever is wrong with it, the answer is an empty index: it is a cache.

Each row has a checksum: one that was edited, or in which a bit has flipped, is left out, and its file is read again.

It has a rollback journal, which works wherever SQLite's locks do; it is written rarely, in one transaction for many
runs, and a writer who meets another one gives up, because the next reader saves the same.
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

FORMAT = 4  # of the tables; a file of another format is made anew
WAIT = 0.5  # seconds to wait for another process that writes
AT_ONCE = 500  # ids in one query: SQLite has a limit

# One table for each file that is remembered, with the columns behind its stamp.
TABLES = {
    "results": ("outcome", "step", "success", "iterations", "attempt", "ended", "reason"),
    "metas": ("name", "axes", "experiments", "searches", "config_sha256", "needs", "iterations"),
    "configs": ("pairs",),
}
T = TypeVar("T")


def index_path(home: Home) -> Path:
    return home.root / "index.db"


def read_rows(home: Home, table: str, ids: Sequence[str] | None = None) -> dict[str, tuple[Any, ...]]:
    """Id -> (id, stamp, *columns of TABLES) of these runs, or of all that are remembered."""
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
    """Remember (id, stamp, *columns) of some runs, in place of what was remembered of them."""
    places = ",".join("?" * (3 + len(TABLES[table])))
    checked = ((_checksum(tuple(row)), *row) for row in rows)
    _write(home, lambda database: database.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({places})", checked))


def forget_rows(home: Home, ids: Sequence[str]) -> None:
    """Forget runs that are gone; nothing depends on it but the size of the file."""

    def forget(database: sqlite3.Connection) -> None:
        for table in TABLES:
            database.executemany(f"DELETE FROM {table} WHERE id = ?", ((run_id,) for run_id in ids))

    _write(home, forget)


def read_pairs(home: Home) -> list[tuple[int, str, str]]:
    """(number, key, value) of every value that a remembered config has; none, and the index is removed, where one of
    them was edited: the configs that have it can then not be known."""
    query = "SELECT checksum, number, key, value FROM pairs"
    rows = _read(home, lambda database: database.execute(query).fetchall()) or []
    pairs = dict(_whole(rows))
    if len(pairs) < len(rows):
        _remove(index_path(home))
        return []
    return list(pairs.values())


def number_pairs(home: Home, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The numbers of these (key, value), given to those that have none yet; some are absent if that cannot be saved."""
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
    """(first column, columns) of the rows (checksum, *columns) whose checksum fits."""
    for checksum, *columns in rows:
        row = tuple(columns)
        if checksum == _checksum(row):
            yield row[0], row


def _read(home: Home, read: Callable[[sqlite3.Connection], T]) -> T | None:
    """What `read` gives; None when there is no index, or it cannot be used."""
    path = index_path(home)
    if not path.exists() or is_special(path):
        return None
    quoted = str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quoted}?mode=ro", uri=True, timeout=WAIT)) as database:
            return read(database) if _is_usable(database) else None
    except sqlite3.Error:
        return None


def _write(home: Home, write: Callable[[sqlite3.Connection], object]) -> None:
    """Write in one transaction, if that is possible now: not in a home that is there to be read only."""
    path = index_path(home)
    if not (home.exists() and os.access(home.root, os.W_OK)):
        return
    if is_special(path):  # a pipe would be waited for
        _remove(path)
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=WAIT, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            if not _is_usable(database):
                _make_tables(database)
            write(database)
            database.execute("COMMIT")
    except sqlite3.OperationalError:
        return  # another process writes, or the disk is full: the next one saves it
    except sqlite3.DatabaseError:  # it is damaged: the next one makes it anew
        _remove(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # in a home that is there to be read only
        for name in (f"{path.name}-journal", path.name):
            path.with_name(name).unlink(missing_ok=True)


def _is_usable(database: sqlite3.Connection) -> bool:
    return bool(database.execute("PRAGMA user_version").fetchone()[0] == FORMAT)


def _make_tables(database: sqlite3.Connection) -> None:
    for statement in _statements():
        database.execute(statement)


def _statements() -> Iterator[str]:
    for table, columns in TABLES.items():
        yield f"DROP TABLE IF EXISTS {table}"
        first = "checksum, id TEXT PRIMARY KEY, stamp TEXT NOT NULL"
        yield f"CREATE TABLE {table} ({first}, {', '.join(columns)}) WITHOUT ROWID"
    yield "DROP TABLE IF EXISTS pairs"
    of_pairs = "checksum, number INTEGER PRIMARY KEY, key TEXT, value TEXT, UNIQUE (key, value)"
    yield f"CREATE TABLE pairs ({of_pairs})"
    yield f"PRAGMA user_version = {FORMAT}"
