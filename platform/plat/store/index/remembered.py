"""One kind of file (result.json, meta.json or config.yaml) of many runs, read from the index where that is possible."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Sequence
from typing import Any

from plat.store.home import Home
from plat.store.index.database import read_rows, save_rows
from plat.store.index.stamp import is_settled
from plat.store.run_directory.paths import RunPaths

SAVED_FROM = 50  # changed files from which on the index is saved; fewer are read again, which takes milliseconds
LARGEST = 2**63  # of SQLite's integers

Columns = tuple[Any, ...]  # as `plat.store.index.database.TABLES` names them


class Remembered:
    """The files of one kind. Call `get` for each run, then `save`.

    read  the columns of a run's file, None when the file is damaged
    ids   the runs that will be asked for, or None for any
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
        """The columns of a file that has the stamp `mark` now; None when it is damaged, or when there is none."""
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
        """Remember what was read from a file after this stamp was taken."""
        if is_settled(mark, time.time()) and all(map(_is_kept_exactly, columns)):
            self._changed.append((run_id, mark, *columns))

    def save(self) -> None:
        if len(self._changed) >= SAVED_FROM:
            save_rows(self._home, self._table, self._changed)

    def gone(self, present: Container[str]) -> list[str]:
        """Remembered runs that are not among these."""
        return [run_id for run_id in self._rows if run_id not in present]


def _is_kept_exactly(value: Any) -> bool:
    """Whether SQLite gives a value back as it is: no NaN, no integer of more than 64 bits, no half of a character."""
    if isinstance(value, str):
        return value.isascii() or value.encode(errors="replace").decode() == value
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or -LARGEST <= value < LARGEST
