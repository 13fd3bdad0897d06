"""Read what a script logs with trackio: a SQLite file for each project, or the Parquet files that it exports.

Written for trackio 0.43, whose table `metrics` has a row for each call of `trackio.log`: a step, and JSON with values.
The Parquet file of a project has a column for each metric instead.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from plat.trainer.script.readers.logged import Logged, Refuse, json_number
from plat.trainer.script.readers.objects import flat

ROWS = "SELECT id, step, metrics, timestamp FROM metrics WHERE id > ? ORDER BY id"
OF_TRACKIO = ("id", "run_id", "run_name", "timestamp", "step", "log_id", "space_id")  # columns of Parquet, no metrics
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
                rows = self._new_rows(path)
            except sqlite3.Error as error:  # it is being made, or is no file of trackio
                if is_last:
                    self._refuse(f"the file of trackio cannot be read: {error}", str(path), "")
                continue
            for row, step, text, at in rows:
                self._rows[path] = row
                yield _logged(step, json.loads(text), at)
        if is_last and not databases:
            for path in sorted(self._folder.rglob("*.parquet")):
                yield from _of_parquet(path)

    def _new_rows(self, path: Path) -> list[tuple[int, int, bytes, str]]:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY)) as file:
            return file.execute(ROWS, (self._rows.get(path, 0),)).fetchall()


def _of_parquet(path: Path) -> Iterator[Logged]:
    from pyarrow import parquet

    if "step" in parquet.read_schema(path).names:
        for row in parquet.read_table(path).to_pylist():
            yield _logged(row["step"], {name: row[name] for name in row if name not in OF_TRACKIO}, row["timestamp"])


def _logged(step: int, values: Mapping[str, Any], at: str) -> Logged:
    numbers = {name: value for name, each in flat(values).items() if (value := json_number(each)) is not None}
    return Logged(step, numbers, datetime.fromisoformat(at).timestamp())
