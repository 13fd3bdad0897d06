"""A SQLite store of MLflow written directly: one transaction a run, no MLflow import.

MLflow's own client takes milliseconds per call and about 60 µs per point; the same rows as one `executemany` take two
orders less. The rows are the ones `mlflow.store.tracking.sqlalchemy_store` would write, which tests hold this to. The
ids of MLflow runs are derived from plat's, so that a repeated import meets its own rows, in whatever order it comes.
"""

from __future__ import annotations

import getpass
import hashlib
import shutil
import sqlite3
import time as clock
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from plat.store import durable
from plat.store.mlflow.backend import (
    SIGNATURE,
    Deleted,
    DeletedExperiment,
    FileInfo,
    Known,
    Stored,
    conflict,
    sql_value,
    stale_tags,
    together,
)
from plat.store.mlflow.client import artifact_root, connect, ensure_sqlite, store_errors
from plat.store.mlflow.record import Point, RunRecord


class SqliteStore:
    """See `backend.Backend`."""

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
        """All or nothing, and alone: another writer waits, or we wait for it."""
        with store_errors(self.uri):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
            except BaseException:
                if self.connection.in_transaction:  # on a full disk SQLite has rolled back by itself
                    self.connection.execute("ROLLBACK")
                raise
            self.connection.execute("COMMIT")

    def check(self) -> None:
        with self.transaction():
            pass  # asks for the right to write, and writes nothing

    def known(self, ids: Iterable[str] | None = None) -> dict[str, Known]:
        with store_errors(self.uri):
            return read_known(self.connection)

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
        return Stored(values, tags, params, str(self._artifacts(run)))

    def file_run(self, experiment: str, file: FileInfo) -> str:
        with self.transaction():
            experiment_id, location = self._experiment(experiment)
            existing = self._find_file(experiment, file.name)
            if existing is None:
                run = _hash(f"file {experiment} {file.name}")
                self._create(run, file.name, experiment_id, location, "FINISHED", _now())
            elif existing[1] != "active":
                raise Deleted(file.name)
            else:
                run = existing[0]
            self._set_tags(run, {"mlflow.runName": file.name, **file.tags()})
            return run

    def write(self, record: RunRecord, known: Known | None, parent: str | None) -> bool:
        with self.transaction() as db:
            run = known.mlflow_id if known else _hash(f"run {record.id}")
            # a home that shares this store may have been faster
            new = known is None and self._first_value("SELECT run_uuid FROM runs WHERE run_uuid = ?", run) is None
            if new:
                experiment_id, location = self._experiment(record.experiment)
                self._create(run, record.name, experiment_id, location, record.status, record.start)
            stored = self._stored(run)
            if conflict(record, stored):
                return False
            self._insert(run, [point for point in record.points if (point.key, point.step) not in stored.values])
            db.executemany(
                "INSERT OR IGNORE INTO params (key, value, run_uuid) VALUES (?, ?, ?)",
                [(key, value, run) for key, value in record.params.items()],
            )
            tags = {**record.tags, SIGNATURE: record.signature}
            if new:  # later, these are the user's to change
                tags |= {"mlflow.runName": record.name} | ({"mlflow.parentRunId": parent} if parent else {})
            stale = stale_tags(stored.tags, tags)
            db.executemany("DELETE FROM tags WHERE key = ? AND run_uuid = ?", [(key, run) for key in stale])
            self._set_tags(run, tags)
            db.execute(
                "UPDATE runs SET status = ?, start_time = ?, end_time = ? WHERE run_uuid = ?",
                (record.status, record.start, record.end, run),
            )
            folder = self._artifacts(run)
            for name, data in record.artifacts.items():
                _write_artifact(folder / name, data)
            return True

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

    def replace_report(self, run: str, artifacts: Mapping[str, Path], values: Mapping[str, float], time: int) -> None:
        with self.transaction() as db:
            folder = self._artifacts(run)
            scratch = durable.scratch_name(folder / "report")
            for name, path in artifacts.items():
                (scratch / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, scratch / name)
            shutil.rmtree(folder / "report", ignore_errors=True)
            if artifacts:
                scratch.rename(folder / "report")
            for table in ("metrics", "latest_metrics"):
                db.execute(f"DELETE FROM {table} WHERE run_uuid = ?", (run,))
            self._insert(run, [Point(key, 0, float(value), time) for key, value in values.items()])

    def _first_value(self, query: str, *values: object) -> str | None:
        """The first column of the first row, None when there is no row."""
        row = self.connection.execute(query, values).fetchone()
        return None if row is None else row[0]

    def _find_file(self, experiment: str, file: str) -> tuple[str, str] | None:
        """(MLflow id, lifecycle stage) of a file's own run; an active one first."""
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

    def _experiment(self, name: str) -> tuple[int, str]:
        """(id, artifact location) of an MLflow experiment, made when there is none."""
        db = self.connection
        query = "SELECT experiment_id, artifact_location, lifecycle_stage FROM experiments WHERE name = ?"
        row = db.execute(query, (name,)).fetchone()
        if row is None:
            db.execute(
                "INSERT INTO experiments (name, lifecycle_stage, creation_time, last_update_time)"
                " VALUES (?, 'active', ?, ?)",
                (name, _now(), _now()),
            )
            number = self._first_value("SELECT experiment_id FROM experiments WHERE name = ?", name)
            db.execute(
                "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?",
                (f"{self.root}/{number}", number),
            )
            row = db.execute(query, (name,)).fetchone()
        if row[2] != "active":
            raise DeletedExperiment(name)
        return row[0], row[1]

    def _create(self, run: str, name: str, experiment: int, location: str, status: str, start: int) -> None:
        self.connection.execute(
            "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status,"
            " start_time, end_time, source_version, lifecycle_stage, artifact_uri, experiment_id, deleted_time)"
            " VALUES (?, ?, 'UNKNOWN', '', '', ?, ?, ?, NULL, '', 'active', ?, ?, NULL)",
            (run, name, _user(), status, start, f"{location}/{run}/artifacts", experiment),
        )

    def _set_tags(self, run: str, tags: Mapping[str, str]) -> None:
        self.connection.executemany(
            "INSERT INTO tags (key, value, run_uuid) VALUES (?, ?, ?)"
            " ON CONFLICT (key, run_uuid) DO UPDATE SET value = excluded.value WHERE value IS NOT excluded.value",
            [(key, value, run) for key, value in tags.items()],
        )

    def _insert(self, run: str, points: list[Point]) -> None:
        """Metric rows, and the newest of each key where MLflow looks for it."""
        rows = []
        latest: dict[str, tuple[str, float, int, str, int, bool]] = {}
        for key, step, value, time in points:
            plain = sql_value(value)
            row = (key, plain or 0.0, time, run, step, plain is None)
            rows.append(row)
            if key not in latest or step > latest[key][4]:
                latest[key] = row
        self.connection.executemany(
            "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)", rows
        )
        self.connection.executemany(
            "INSERT INTO latest_metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (key, run_uuid) DO UPDATE SET value = excluded.value, timestamp = excluded.timestamp,"
            " step = excluded.step, is_nan = excluded.is_nan WHERE excluded.step > latest_metrics.step",
            list(latest.values()),
        )


def read_known(connection: sqlite3.Connection) -> dict[str, Known]:
    """Runs by plat id. Of several MLflow runs with one plat id (none of ours) an active one is taken."""
    rows = connection.execute(
        "SELECT tags.run_uuid, tags.key, tags.value FROM tags"
        " WHERE tags.key IN ('plat.id', 'plat.outcome', ?) OR (tags.key > 'plat.in.' AND tags.key < 'plat.in/')",
        (SIGNATURE,),
    )
    tags: dict[str, dict[str, str]] = {}
    for run, key, value in rows:
        tags.setdefault(run, {})[key] = value
    deleted = {run for (run,) in connection.execute("SELECT run_uuid FROM runs WHERE lifecycle_stage <> 'active'")}
    by_id: dict[str, Known] = {}
    for run, own in sorted(tags.items()):
        plat_id = own.get("plat.id")
        if plat_id and (plat_id not in by_id or by_id[plat_id].deleted):
            files = frozenset(key.removeprefix("plat.in.") for key in own if key.startswith("plat.in."))
            by_id[plat_id] = Known(run, own.get(SIGNATURE), files, run in deleted, own.get("plat.outcome"))
    return by_id


def _write_artifact(path: Path, data: bytes) -> None:
    try:
        if path.read_bytes() == data:
            return
    except OSError:
        path.parent.mkdir(parents=True, exist_ok=True)
    durable.write(path, data, sync=False)


def _hash(name: str) -> str:
    """An MLflow run id made from a name: the same in every store."""
    return hashlib.sha256(f"plat {name}".encode()).hexdigest()[:32]


def _now() -> int:
    return int(clock.time() * 1000)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
