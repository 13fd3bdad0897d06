"""Read a SQLite store of MLflow with direct SQL, in a few queries per run and from one snapshot.

One query gives for each key the steps and row ids as text (most runs share them, so they are parsed once). Another
gives all values in the order of the rows on disk, which numpy then sorts. MLflow's client needs a request per metric.
Numbers equal those of the client, with NaN and infinities restored.
"""

from __future__ import annotations

import os
import stat
from itertools import chain
from typing import TYPE_CHECKING

from plat.store.mlflow.backend import ARCHIVED, TWIN, RawRun, Series, restore
from plat.store.mlflow.sqlite_connection import connect_readonly
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import ARTIFACTS, sqlite_path

if TYPE_CHECKING:
    import numpy as np


IN_BIN_OF_FILE = """
SELECT id.value FROM runs JOIN tags AS id ON id.run_uuid = runs.run_uuid AND id.key = 'plat.id'
WHERE lifecycle_stage = 'deleted' AND runs.run_uuid IN (SELECT run_uuid FROM tags WHERE key = ?)
AND runs.run_uuid NOT IN (SELECT run_uuid FROM tags WHERE key IN (?, ?))
"""


Groups = list[tuple[str, int, str, str]]  # (key, number of points, their steps, their rowids minus the run's first)
Layout = tuple["Groups", list[int], "np.ndarray", "np.ndarray"]


class SqlReader:
    """A `backend.RawReader` for SQLite files."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        path = sqlite_path(uri)
        assert path is not None, uri
        self.path = path
        with store_errors(uri):
            self.connection = connect_readonly(path)
        self._layout: Layout | None = None  # of the last run: most runs have the same layout

    def close(self) -> None:
        self.connection.close()

    def runs(self, file: str, params: bool = True) -> list[RawRun]:
        with store_errors(self.uri):
            self._begin()
            chosen = "(SELECT run_uuid FROM tags WHERE key = ?)"
            runs = {
                run: RawRun(run, name, {}, {}, folder)
                for run, name, folder in self.connection.execute(
                    "SELECT run_uuid, name, artifact_uri FROM runs"
                    f" WHERE lifecycle_stage = 'active' AND run_uuid IN {chosen}",
                    (f"plat.in.{file}",),
                )
            }
            same: dict[str, str] = {}  # one object per text, because runs share most of them
            for table in ("tags", "params") if params else ("tags",):
                query = f"SELECT run_uuid, key, value FROM {table} WHERE run_uuid IN {chosen}"
                for run, key, value in self.connection.execute(query, (f"plat.in.{file}",)):
                    if run in runs:
                        getattr(runs[run], table)[same.setdefault(key, key)] = same.setdefault(value, value)
            return list(runs.values())

    def deleted(self, file: str) -> set[str]:
        with store_errors(self.uri):
            self._begin()
            rows = self.connection.execute(IN_BIN_OF_FILE, (f"plat.in.{file}", ARCHIVED, TWIN))
            return {plat_id for (plat_id,) in rows}

    def series(self, run: RawRun) -> Series:
        import numpy as np

        with store_errors(self.uri):
            self._begin()
            first = self.connection.execute(
                "SELECT rowid FROM metrics WHERE run_uuid = ? ORDER BY rowid LIMIT 1", [run.mlflow_id]
            ).fetchone() or (0,)
            groups = self.connection.execute(
                "SELECT key, count(*), group_concat(step), group_concat(rowid - ?) FROM metrics"
                " WHERE run_uuid = ? GROUP BY key ORDER BY key",
                [*first, run.mlflow_id],
            ).fetchall()
            # NaN is read as 9e999, SQLite's infinity, which MLflow never stores
            rows = self.connection.execute(
                "SELECT CASE WHEN is_nan THEN 9e999 ELSE value END FROM metrics WHERE run_uuid = ? ORDER BY rowid",
                [run.mlflow_id],
            )
            stored = np.fromiter(chain.from_iterable(rows), dtype=np.float64)
        if not groups:
            return Series([], [], np.zeros(0, np.int64), stored)
        if self._layout is None or self._layout[0] != groups:
            self._layout = (groups, *_layout(groups))
        _, counts, steps, places = self._layout
        values = stored[places]
        values[np.isposinf(values)] = np.nan
        return Series([key for key, *_ in groups], counts, steps, restore(values))

    def artifact(self, run: RawRun, name: str) -> bytes | None:
        """Return an artifact, None if absent; looks beside the store first, where a moved store has its artifacts."""
        with store_errors(self.uri):
            folder = run.artifacts.removeprefix("file://")
            *_, root, experiment, own, last = ("",) * 4 + tuple(folder.split("/"))
            beside = f"{self.path.parent}/{ARTIFACTS}/{experiment}/{own}/{last}"
            places = (beside, folder) if root == ARTIFACTS else (folder,)
            denied = None
            for path in (f"{place}/{name}" for place in places):
                try:
                    if stat.S_ISREG(os.stat(path).st_mode):
                        with open(path, "rb") as file:
                            return file.read()
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except PermissionError as error:  # the former place may belong to another user
                    denied = error
            if denied is not None:
                raise denied
            return None

    def _begin(self) -> None:
        """Begin a transaction, so that all queries read one snapshot."""
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN")


def _layout(groups: Groups) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Return the counts by key and, for points sorted by key and step, their steps and ranks in the order of rowids."""
    import numpy as np

    counts = [count for _, count, _, _ in groups]
    steps = np.array(",".join(steps for _, _, steps, _ in groups).split(","), dtype=np.int64)
    rowids = np.array(",".join(rowids for _, _, _, rowids in groups).split(","), dtype=np.int64)
    order = np.lexsort((rowids, steps, np.repeat(np.arange(len(groups)), counts)))
    return counts, steps[order], np.argsort(np.argsort(rowids))[order]
