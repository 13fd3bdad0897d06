"""Write a SQLite store of MLflow with direct SQL: one transaction per run, without importing MLflow.

MLflow's client takes milliseconds per call and about 60 µs per point; one `executemany` of the same rows is a hundred
times faster. MLflow run ids are derived from plat ids, so that a repeated import finds its rows in any order.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from plat.plain_files import read_bytes
from plat.store.disk import durable
from plat.store.mlflow import sqlite_rows as sql
from plat.store.mlflow.backend import SIGNATURE, TWIN, Deleted, FileInfo, Known, Stored, conflict, stale_tags, together
from plat.store.mlflow.digest import digest_tags
from plat.store.mlflow.report_record import LoggedReport, stale_report_tags, without_report_note
from plat.store.mlflow.run_record import Point, RunRecord, as_stored
from plat.store.mlflow.sqlite_connection import connect, transaction
from plat.store.mlflow.sqlite_creation import ensure_sqlite
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import artifact_root


class SqliteStore:
    """A `backend.Backend` for SQLite files. The constructor creates a missing file; StoreError if it cannot."""

    def __init__(self, uri: str, timeout: float | None = None) -> None:
        self.uri = uri
        self.path = ensure_sqlite(uri)
        self.root = artifact_root(uri)
        with store_errors(uri):
            self.connection = connect(self.path, timeout)

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a write `transaction`. Raises StoreError for errors of SQLite, e.g. a busy file."""
        with store_errors(self.uri), transaction(self.connection):
            yield self.connection

    def check(self) -> None:
        with self.transaction():
            pass  # takes the write lock and writes nothing

    def known(self, ids: Iterable[str] | None = None) -> dict[str, Known]:
        with store_errors(self.uri):
            return sql.read_known(self.connection)

    def drop_twins(self) -> None:
        pass  # none exist: the MLflow id is derived from the plat id

    def twins(self) -> list[str]:
        with store_errors(self.uri):
            return sorted(
                row[0] for row in self.connection.execute(sql.IN_BIN, (TWIN,))
            )  # those that a server has left

    def stored(self, known: Known) -> Stored:
        with store_errors(self.uri):
            return self._stored(known.mlflow_id)

    def _stored(self, run: str) -> Stored:
        rows = self.connection.execute("SELECT key, step, value, is_nan FROM metrics WHERE run_uuid = ?", (run,))
        values = {(key, step): None if is_nan else value for key, step, value, is_nan in rows}
        tags, params = (
            dict(self.connection.execute(f"SELECT key, value FROM {table} WHERE run_uuid = ?", (run,)))
            for table in ("tags", "params")
        )
        rows = self.connection.execute("SELECT key, step, value, is_nan FROM latest_metrics WHERE run_uuid = ?", (run,))
        newest = {key: (step, None if is_nan else value) for key, step, value, is_nan in rows}
        status = self._first_value("SELECT status FROM runs WHERE run_uuid = ?", run) or ""
        return Stored(values, tags, params, str(self._artifacts(run)), status, newest)

    def file_run(self, experiment: str, file: FileInfo) -> str:
        with self.transaction():
            place = sql.find_or_make_experiment(self.connection, experiment, self.root)
            existing = self._find_file(experiment, file.name)
            if existing is None:
                run = sql.mlflow_id(f"file {experiment} {file.name}")
                sql.insert_run(self.connection, run, file.name, place, "FINISHED")
            elif existing[1] != "active":
                raise Deleted(file.name)
            else:
                run = existing[0]
            tags = without_report_note(file.tags(), sql.read_tags(self.connection, run))
            sql.set_tags(self.connection, run, {"mlflow.runName": file.name, **tags})
            return run

    def write(self, record: RunRecord, known: Known | None) -> bool:
        with self.transaction() as db:
            run = known.mlflow_id if known else sql.id_of_new_run(db, record.id)
            # another home that shares this store may have created it
            new = known is None and self._first_value("SELECT run_uuid FROM runs WHERE run_uuid = ?", run) is None
            if new:
                place = sql.find_or_make_experiment(db, record.experiment, self.root)
                sql.insert_run(db, run, record.name, place, record.status, record.start)
            stored = self._stored(run)
            record = as_stored(record, {key for key, _ in stored.values})
            if conflict(record, stored):
                return False
            sql.insert_points(
                db, run, [point for point in record.points if (point.key, point.step) not in stored.values]
            )
            db.executemany(
                "INSERT OR IGNORE INTO params (key, value, run_uuid) VALUES (?, ?, ?)",
                [(key, value, run) for key, value in record.params.items()],
            )
            tags = {**record.tags, **digest_tags(record), SIGNATURE: record.signature}
            if new or "plat.id" not in stored.tags:  # later, these are the user's to change
                tags |= {"mlflow.runName": record.name}
            stale = stale_tags(stored.tags, tags)
            db.executemany("DELETE FROM tags WHERE key = ? AND run_uuid = ?", [(key, run) for key in stale])
            sql.set_tags(db, run, tags)
            db.execute(
                "UPDATE runs SET status = ?, start_time = ?, end_time = ? WHERE run_uuid = ?",
                (record.status, record.start, record.end, run),
            )
            folder = self._artifacts(run)
            for name, data in record.artifacts.items():
                _write_artifact(folder / name, data)
            return True

    def forget(self, known: Known) -> None:
        with self.transaction() as db:
            for table in ("metrics", "latest_metrics", "params"):
                db.execute(f"DELETE FROM {table} WHERE run_uuid = ?", (known.mlflow_id,))
            db.execute("DELETE FROM tags WHERE run_uuid = ? AND key = ?", (known.mlflow_id, SIGNATURE))

    def settle(self, experiment: str, file: str) -> None:
        with self.transaction() as db:
            own = self._find_file(experiment, file)
            if own is None:
                return
            rows = db.execute(
                "SELECT runs.status, runs.start_time, runs.end_time FROM runs JOIN tags USING (run_uuid)"
                " WHERE tags.key = ? AND runs.lifecycle_stage = 'active'"
                " AND runs.experiment_id = (SELECT experiment_id FROM runs WHERE run_uuid = ?)",
                (f"plat.in.{file}", own[0]),
            ).fetchall()
            status, start, end = together(rows)
            db.execute(
                "UPDATE runs SET status = ?, start_time = coalesce(?, start_time), end_time = ? WHERE run_uuid = ?",
                (status, start, end, own[0]),
            )

    def replace_report(self, run: str, report: LoggedReport, time: int) -> None:
        with self.transaction() as db:
            folder = self._artifacts(run)
            scratch = durable.scratch_name(folder / "report")
            for name, path in report.files.items():
                (scratch / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, scratch / name)
            shutil.rmtree(folder / "report", ignore_errors=True)
            if report.files:
                scratch.rename(folder / "report")
            for table in ("metrics", "latest_metrics"):
                db.execute(f"DELETE FROM {table} WHERE run_uuid = ?", (run,))
            sql.insert_points(db, run, [Point(key, 0, float(value), time) for key, value in report.values.items()])
            stale = stale_report_tags(sql.read_tags(db, run), report.tags)
            db.executemany("DELETE FROM tags WHERE key = ? AND run_uuid = ?", [(key, run) for key in stale])
            sql.set_tags(db, run, report.tags)
            sql.describe_experiment(db, run)

    def _first_value(self, query: str, *values: object) -> str | None:
        """Return the first column of the first row, None if there is no row."""
        row = self.connection.execute(query, values).fetchone()
        return None if row is None else row[0]

    def _find_file(self, experiment: str, file: str) -> tuple[str, str] | None:
        """Return (MLflow id, lifecycle stage) of a file's run, an active one if there is one, or None."""
        row: tuple[str, str] | None = self.connection.execute(
            "SELECT run_uuid, lifecycle_stage FROM tags JOIN runs USING (run_uuid)"
            " WHERE key = 'plat.file' AND value = ?"
            " AND experiment_id = (SELECT experiment_id FROM experiments WHERE name = ?) ORDER BY lifecycle_stage",
            (file, experiment),
        ).fetchone()
        return row

    def _artifacts(self, run: str) -> Path:
        return Path(
            (self._first_value("SELECT artifact_uri FROM runs WHERE run_uuid = ?", run) or "").removeprefix("file://")
        )


def _write_artifact(path: Path, data: bytes) -> None:
    try:
        if read_bytes(path) == data:
            return
    except OSError:
        path.parent.mkdir(parents=True, exist_ok=True)
    durable.write(path, data, sync=False)
