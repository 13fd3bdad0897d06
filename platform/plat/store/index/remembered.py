"""Read one kind of file (result.json, meta.json or config.yaml) of many runs, from the index if it is up to date.

A file is up to date there if its stamp is still the one that was taken before it was read.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Container, Sequence
from typing import Any

from plat.store.home import Home
from plat.store.index.database import read_rows, save_rows
from plat.store.run_directory.paths import RunPaths

SAVED_FROM = 50  # least number of changed files to save; reading fewer again takes milliseconds
LARGEST = 2**63  # bound of SQLite's integers
SETTLED = 2.0  # seconds after the last change of a file before its stamp is trusted
SAMPLE = 64  # files whose `stat` is timed to detect a slow file system
SLOW = 1e-4  # seconds for one file; a network file system takes longer, a local one a few microseconds
AT_ONCE, PART = 32, 100  # threads for a slow file system, and files per task of a thread

Columns = tuple[Any, ...]  # as `plat.store.index.database.TABLES` names them


class Remembered:
    """The files of one kind. Call `get` for each run, then `save`.

    read  returns the columns of a run's file, None if the file is damaged
    ids   the runs that `get` will be called for; None for any
    """

    def __init__(
        self, home: Home, table: str, read: Callable[[RunPaths], Columns | None], ids: Sequence[str] | None = None
    ) -> None:
        self._home = home
        self._table = table
        self._read = read
        self._rows = read_rows(home, table, ids)
        self._changed: list[tuple[Any, ...]] = []

    def get(self, run_id: str, mark: str | None) -> Columns | None:
        """Return the columns of a run's file, whose stamp now is `mark`; None if it is damaged or absent."""
        row = self._rows.get(run_id)
        if row is not None and row[1] == mark:
            return row[2:]
        if mark is None:
            return None
        columns = self._read(self._home.run(run_id))
        if columns is not None:
            self.put(run_id, mark, columns)
        return columns

    def put(self, run_id: str, mark: str, columns: Columns) -> None:
        """Remember the columns of a run that were read after its stamp `mark` was taken.

        Does nothing unless `is_settled` is true of the stamp and SQLite keeps every value exactly.
        """
        if is_settled(mark, time.time()) and all(map(_is_kept_exactly, columns)):
            self._changed.append((run_id, mark, *columns))

    def save(self) -> None:
        """Write to the index what `get` has read and `put` was given, if that is at least SAVED_FROM files."""
        if len(self._changed) >= SAVED_FROM:
            save_rows(self._home, self._table, self._changed)

    def gone(self, present: Container[str]) -> list[str]:
        """Return the remembered ids that are not among these."""
        return [run_id for run_id in self._rows if run_id not in present]


def _is_kept_exactly(value: Any) -> bool:
    """Return True if SQLite returns a value unchanged: no NaN, no integer above 64 bits, no lone surrogate."""
    if isinstance(value, str):
        return value.isascii() or value.encode(errors="replace").decode() == value
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or -LARGEST <= value < LARGEST


# --- stamps ---------------------------------------------------------------------------------------------------------


def stamp(path: str | os.PathLike[str]) -> str | None:
    """Return "inode:size:mtime:ctime" of a file, times in ns; None if there is no such file.

    A user can set back mtime but not ctime, so every edit changes the stamp.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


def stamps(paths: Sequence[str]) -> list[str | None]:
    """Return the stamps of many files; on a slow file system, with threads."""
    started = time.perf_counter()
    marks = [stamp(path) for path in paths[:SAMPLE]]
    if len(paths) <= SAMPLE or time.perf_counter() - started < SLOW * SAMPLE:
        return marks + [stamp(path) for path in paths[SAMPLE:]]
    from concurrent.futures import ThreadPoolExecutor

    parts = [paths[start : start + PART] for start in range(SAMPLE, len(paths), PART)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for part in pool.map(lambda part: [stamp(path) for path in part], parts):
            marks += part
    return marks


def is_settled(mark: str, now: float) -> bool:
    """Return True if the ctime in a stamp is over SETTLED seconds before `now`, so a new change alters the stamp."""
    # File systems count time in steps of milliseconds, some of seconds: two changes within a step have the same time.
    return now - int(mark.rpartition(":")[2]) / 1e9 > SETTLED
