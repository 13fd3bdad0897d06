"""Read what Trackio keeps: a SQLite file for each project, or the Parquet files that it exports.

Written for trackio 0.43, whose table `metrics` has a row for each call of `trackio.log`: a run, a step, and JSON with
values; `configs` has a row for each run. The Parquet files of a project have a column for each value instead.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from plat.trainer.script.readers.objects import Logged, Refuse, flat, json_number

OF_TRACKIO = ("id", "run_id", "run_name", "timestamp", "created_at", "step", "log_id", "space_id")  # columns, no values
BUSY = 5.0  # seconds to wait for a writer


class TrackioFiles:
    """The metrics of all projects below a folder."""

    def __init__(self, folder: Path, refuse: Refuse) -> None:
        self._folder, self._refuse = folder, refuse
        self._rows: dict[Path, int] = {}  # file -> the newest row that was read

    def new(self, is_last: bool = False) -> Iterator[Logged]:
        """Yield the metrics since the last call, of one project after the other; of Parquet if there is no other."""
        databases = sorted(self._folder.rglob("*.db"))
        for path in databases:
            try:
                rows = database_rows(path, "metrics", self._rows.get(path, 0))
            except sqlite3.Error as error:  # it is being made, or is no file of trackio
                if is_last:
                    self._refuse(f"the file of trackio cannot be read: {error}", str(path), "")
                continue
            for row in rows:
                self._rows[path] = row["id"]
                yield _logged(row["step"], json.loads(row["metrics"]), row["timestamp"])
        if is_last and not databases:
            for path in sorted(self._folder.rglob("*.parquet")):
                yield from _of_parquet(path)


def database_rows(path: Path, table: Literal["metrics", "configs"], after: int = 0) -> list[dict[str, Any]]:
    """Return the rows of a table of a project, which is not written; those with a larger id than `after`.

    Raises sqlite3.Error if the file is no such database, or if a writer has locked it for longer than BUSY.
    """
    with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY)) as file:
        file.row_factory = sqlite3.Row
        return [dict(row) for row in file.execute(f"SELECT * FROM {table} WHERE id > ? ORDER BY id", (after,))]


def values_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values among the columns of a row of an exported file."""
    return {name: value for name, value in row.items() if name not in OF_TRACKIO}


def numbers_in(values: Mapping[str, Any]) -> dict[str, float]:
    """Return dotted name -> number of logged values, NaN and infinities included, which Trackio writes as texts."""
    return {name: value for name, each in flat(values).items() if (value := json_number(each)) is not None}


def _of_parquet(path: Path) -> Iterator[Logged]:
    from pyarrow import parquet

    if "step" in parquet.read_schema(path).names:
        for row in parquet.read_table(path).to_pylist():
            yield _logged(row["step"], values_of(row), row["timestamp"])


def _logged(step: int, values: Mapping[str, Any], at: str) -> Logged:
    return Logged(step, numbers_in(values), datetime.fromisoformat(at).timestamp())
