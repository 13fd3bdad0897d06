"""Read metrics of single runs from their artifacts, for lists and curves; remember the last values of many.

The table `plat-home/cache/last_values.db` has the last value of each metric by the hash of the artifact, so that a list
of thousands of runs opens no artifact. An artifact never changes under its hash, and each row has a checksum, so no row
is ever wrong. The file may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from functools import lru_cache
from pathlib import Path
from zlib import crc32

from plat.errors import StoreError
from plat.store.home import Home
from plat.store.measured import Measured
from plat.store.mlflow.artifacts import read_artifact
from plat.store.mlflow.sqlite_file import stamp
from plat.store.mlflow.stored_runs import StoredRun, stored_runs
from plat.store.mlflow.uri import sqlite_path

WAIT = 0.5  # seconds to wait for another process that writes the table
MAKE = "CREATE TABLE IF NOT EXISTS last_values (hash TEXT PRIMARY KEY, content TEXT, checksum INTEGER) WITHOUT ROWID"


def stored_run(home: Home, run_id: str) -> StoredRun | None:
    """Return what the store of a home has of a done run; None if it has nothing, or cannot be read."""
    try:
        uri = home.store_uri()
        path = sqlite_path(uri)
        run = _listed(home, uri, str(stamp(path)) if path is not None else "").get(run_id)
    except StoreError:
        return None
    return run if run is not None and run.whole and not run.deleted else None


@lru_cache(maxsize=4)
def _listed(home: Home, uri: str, mark: str) -> dict[str, StoredRun]:
    return stored_runs(home, uri)


def metrics_of(home: Home, run: StoredRun) -> dict[str, dict[int, float]] | None:
    """Return metric -> step -> value of a run; None if its artifact is missing, edited, or cannot be read."""
    try:
        found = read_artifact(home, home.store_uri(), run)
    except StoreError:
        return None
    if not isinstance(found, Measured):
        return None
    series: dict[str, dict[int, float]] = {}
    for metric in found.history()[0]:
        series.setdefault(metric.key, {})[metric.step] = metric.value
    return series


def last_values(home: Home, run: StoredRun) -> dict[str, float] | None:
    """Return metric -> last value of a run, as `metrics_of`."""
    table = _table(home.cache / "last_values.db")
    digest = str(run.measured)
    if digest not in table:
        series = metrics_of(home, run)
        if series is None:
            return None
        table[digest] = {key: values[max(values)] for key, values in series.items()}
        _save(home, digest, table[digest])
    return table[digest]


@lru_cache(maxsize=4)
def _table(path: Path) -> dict[str, dict[str, float]]:
    """Return hash -> metric -> last value; what this process adds later is added here, too."""
    table: dict[str, dict[str, float]] = {}
    with contextlib.suppress(sqlite3.Error, OSError, ValueError):
        if path.is_file():
            address = f"{path.absolute().as_uri()}?mode=ro"
            with contextlib.closing(sqlite3.connect(address, uri=True, timeout=WAIT)) as file:
                for digest, content, checksum in file.execute("SELECT hash, content, checksum FROM last_values"):
                    if checksum == _checksum(digest, content):
                        table[digest] = json.loads(content)
    return table


def _save(home: Home, digest: str, values: dict[str, float]) -> None:
    """Add the values of a run to the table; do nothing in a read-only home or if the file cannot be written now."""
    path = home.cache / "last_values.db"
    if not (home.exists() and os.access(home.cache, os.W_OK)):
        return
    content = json.dumps(values)
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=WAIT)) as file, file:
            file.execute("PRAGMA synchronous = OFF")
            file.execute(MAKE)
            row = (digest, content, _checksum(digest, content))
            file.execute("INSERT OR REPLACE INTO last_values VALUES (?, ?, ?)", row)
    except sqlite3.OperationalError:
        return  # another process writes, or the disk is full
    except sqlite3.DatabaseError:  # damaged: the next run makes it again
        with contextlib.suppress(OSError):
            path.unlink()


def _checksum(digest: str, content: str) -> int:
    return crc32(f"{digest} {content}".encode(errors="surrogatepass"))
