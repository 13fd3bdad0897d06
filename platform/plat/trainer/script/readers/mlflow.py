"""Read metrics that a script logs with MLflow's own client, into a SQLite file of its run."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import quote

from plat.errors import RunError
from plat.trainer.script.readers.objects import Logged

NAME = "mlflow.db"
LARGEST = 1.7976931348623157e308  # MLflow stores it for infinity
BUSY = 5.0  # seconds to wait for a writer
# Rows have the order in which they were logged. Nested runs, such as trials of a search in the script, are left out.
ROWS = """SELECT m.rowid, m.key, m.value, m.is_nan, m.step, m.timestamp, r.name || ' (' || r.run_uuid || ')'
    FROM metrics m JOIN runs r ON r.run_uuid = m.run_uuid WHERE m.rowid > ? AND NOT EXISTS
    (SELECT 1 FROM tags t WHERE t.run_uuid = m.run_uuid AND t.key = 'mlflow.parentRunId') ORDER BY m.rowid"""
MAKE = """import sys
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
SqlAlchemyStore("sqlite:///" + sys.argv[1], sys.argv[1] + "-artifacts")._dispose_engine()"""


def empty_store(files: Path, cache: Path) -> dict[str, str | None]:
    """Put an empty store into a run's folder, and return variables for MLflow's client: None removes one.

    MLflow takes seconds to make tables, so an empty store is made once, in `cache`. Raises RunError if that fails.
    """
    for path in files.glob(f"{NAME}*"):
        path.unlink()
    shutil.copyfile(_template(cache), files / NAME)
    with contextlib.closing(sqlite3.connect(files / NAME)) as database, database:
        database.execute("UPDATE experiments SET artifact_location = ?", (str(files / "mlartifacts" / "0"),))
    others = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_REGISTRY_URI")
    return {"MLFLOW_TRACKING_URI": f"sqlite:///{files / NAME}", **dict.fromkeys(others)}


def _template(cache: Path) -> Path:
    try:
        kept = cache / "script-mlflow" / f"{version('mlflow')}.db"
    except PackageNotFoundError:
        raise RunError("MLflow is not installed", where="script.metrics", fix="pip install mlflow") from None
    if not kept.exists():
        print("[plat: making an empty store of MLflow, once]", flush=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        scratch = kept.with_name(f".tmp-{os.getpid()}-{kept.name}")
        made = subprocess.run([sys.executable, "-P", "-c", MAKE, str(scratch)], capture_output=True, text=True)
        if made.returncode:
            cause = made.stderr.strip().rpartition("\n")[2]
            raise RunError(f"MLflow cannot make a store: {cause}", where=str(kept), fix="check `pip show mlflow`")
        scratch.replace(kept)
    return kept


class MlflowFile:
    """The metrics in a store that MLflow's client writes to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._row = 0  # the newest that was read
        self._owners: dict[str, str] = {}  # metric -> the run of MLflow that has it

    def new(self, is_last: bool = False) -> Iterator[Logged]:
        """Yield the metrics since the last call, in the order in which they were logged.

        A step below 0, which MLflow allows, is 0. Raises RunError for a metric of two runs, or no store at the end.
        """
        try:
            rows = self._rows()
        except sqlite3.Error as error:
            if not is_last:
                return  # the next call reads them
            fix = "let the script log to the MLFLOW_TRACKING_URI that it gets"
            raise RunError(f"the metrics of MLflow cannot be read: {error}", where=str(self._path), fix=fix) from error
        for row, key, value, is_nan, step, milliseconds, run in rows:
            self._row = row
            if (owner := self._owners.setdefault(key, run)) != run:
                fix = "log into one run of MLflow, or start the others with nested=True, which plat leaves out"
                raise RunError(f"two runs of MLflow have the metric {key}: {owner} and {run}", fix=fix)
            number = math.nan if is_nan else math.copysign(math.inf, value) if abs(value) >= LARGEST else value
            yield Logged(max(0, step), {key: number}, milliseconds / 1000, key)

    def _rows(self) -> list[tuple[int, str, float, int, int, int, str]]:
        address = f"file:{quote(str(self._path))}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=BUSY)) as database:
            return database.execute(ROWS, (self._row,)).fetchall()
