"""Read and write rows of a SQLite store as `mlflow.store.tracking.sqlalchemy_store` does; tests compare the two.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

import getpass
import hashlib
import itertools
import sqlite3
import time as clock
from collections.abc import Iterable, Mapping

from plat.store.mlflow.backend import ARCHIVED, SIGNATURE, TWIN, DeletedExperiment, Known, sql_value
from plat.store.mlflow.report_record import NOTE, REPORT, experiment_note
from plat.store.mlflow.run_record import Point

CACHE = 16_000  # KiB of SQLite's page cache for `read_known`
# The tags of a run lie together on disk: one row per run is faster than one row per tag, and takes less memory.
KNOWN = """
SELECT id.run_uuid, id.value, signature.value, outcome.value, runs.lifecycle_stage, digest.value IS NOT NULL
FROM tags AS id JOIN runs ON runs.run_uuid = id.run_uuid
LEFT JOIN tags AS signature ON signature.key = ? AND signature.run_uuid = id.run_uuid
LEFT JOIN tags AS outcome ON outcome.key = 'plat.outcome' AND outcome.run_uuid = id.run_uuid
LEFT JOIN tags AS digest ON digest.key = 'plat.digest' AND digest.run_uuid = id.run_uuid
WHERE id.key = 'plat.id' ORDER BY id.run_uuid
"""
IN_BIN = """
SELECT run_uuid FROM tags JOIN runs USING (run_uuid) WHERE key = ? AND lifecycle_stage = 'deleted'
"""


def mlflow_id(name: str) -> str:
    """Return the MLflow run id derived from a name, the same in every store."""
    return hashlib.sha256(f"plat {name}".encode()).hexdigest()[:32]


def id_of_new_run(db: sqlite3.Connection, plat_id: str) -> str:
    """Return the MLflow id of a new run: derived from its plat id, with a number if archived runs have that id."""
    names = itertools.chain([f"run {plat_id}"], (f"run {plat_id} {number}" for number in itertools.count(2)))
    ids = (mlflow_id(name) for name in names)
    return next(run for run in ids if db.execute(f"{IN_BIN} AND run_uuid = ?", (ARCHIVED, run)).fetchone() is None)


def find_or_make_experiment(db: sqlite3.Connection, name: str, root: str | None) -> tuple[int, str]:
    """Return (id, artifact location) of an MLflow experiment, created if missing.

    A new one has its artifacts in `<root>/<id>`. Raises DeletedExperiment if the experiment is in MLflow's bin.
    """
    query = "SELECT experiment_id, artifact_location, lifecycle_stage FROM experiments WHERE name = ?"
    row = db.execute(query, (name,)).fetchone()
    if row is not None:
        number, location, stage = row
        if stage != "active":
            raise DeletedExperiment(name)
        return number, location
    columns = "name, lifecycle_stage, creation_time, last_update_time"
    query = f"INSERT INTO experiments ({columns}) VALUES (?, 'active', ?, ?)"
    number = db.execute(query, (name, _now(), _now())).lastrowid
    assert number is not None
    location = f"{root}/{number}"
    db.execute("UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?", (location, number))
    return number, location


def insert_run(
    db: sqlite3.Connection, run: str, name: str, experiment: tuple[int, str], status: str, start: int | None = None
) -> None:
    """Insert an active run into `experiment` (id, artifact location); `start` in milliseconds (default: now)."""
    number, location = experiment
    db.execute(
        "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status,"
        " start_time, end_time, source_version, lifecycle_stage, artifact_uri, experiment_id, deleted_time)"
        " VALUES (?, ?, 'UNKNOWN', '', '', ?, ?, ?, NULL, '', 'active', ?, ?, NULL)",
        (run, name, _user(), status, _now() if start is None else start, f"{location}/{run}/artifacts", number),
    )


def set_tags(db: sqlite3.Connection, run: str, tags: Mapping[str, str]) -> None:
    """Insert or update these tags of a run; its other tags stay."""
    db.executemany(
        "INSERT INTO tags (key, value, run_uuid) VALUES (?, ?, ?)"
        " ON CONFLICT (key, run_uuid) DO UPDATE SET value = excluded.value WHERE value IS NOT excluded.value",
        [(key, value, run) for key, value in tags.items()],
    )


def read_tags(db: sqlite3.Connection, run: str) -> dict[str, str]:
    """Return the tags of a run."""
    return dict(db.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (run,)).fetchall())


def describe_experiment(db: sqlite3.Connection, run: str) -> None:
    """Write the description of the run's MLflow experiment from the reports of its files."""
    (number,) = db.execute("SELECT experiment_id FROM runs WHERE run_uuid = ?", (run,)).fetchone()
    own = db.execute(
        "SELECT run_uuid FROM tags JOIN runs USING (run_uuid)"
        " WHERE key = ? AND lifecycle_stage = 'active' AND experiment_id = ?",
        (REPORT, number),
    ).fetchall()
    query = "SELECT value FROM experiment_tags WHERE key = ? AND experiment_id = ?"
    (present,) = db.execute(query, (NOTE, number)).fetchone() or ("",)
    note = experiment_note([read_tags(db, other) for (other,) in own], present or "")
    if note:
        db.execute(
            "INSERT INTO experiment_tags (key, value, experiment_id) VALUES (?, ?, ?)"
            " ON CONFLICT (key, experiment_id) DO UPDATE SET value = excluded.value",
            (NOTE, note, number),
        )


def insert_points(db: sqlite3.Connection, run: str, points: Iterable[Point]) -> None:
    """Insert metric rows, and update the table of the newest values where a step is higher."""
    rows = []
    latest: dict[str, tuple[str, float, int, str, int, bool]] = {}
    for key, step, value, time in points:
        plain = sql_value(value)
        row = (key, plain or 0.0, time, run, step, plain is None)
        rows.append(row)
        if key not in latest or step > latest[key][4]:
            latest[key] = row
    db.executemany(
        "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)", rows
    )
    db.executemany(
        "INSERT INTO latest_metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (key, run_uuid) DO UPDATE SET value = excluded.value, timestamp = excluded.timestamp,"
        " step = excluded.step, is_nan = excluded.is_nan WHERE excluded.step > latest_metrics.step",
        list(latest.values()),
    )


def read_known(connection: sqlite3.Connection) -> dict[str, Known]:
    """Return the runs by plat id, without twins and archived runs; an active run wins over a deleted one."""
    connection.execute(f"PRAGMA cache_size = -{CACHE}")
    set_aside = {row[0] for tag in (ARCHIVED, TWIN) for row in connection.execute(IN_BIN, (tag,))}
    files = _files_of_runs(connection)
    nothing: frozenset[str] = frozenset()
    by_id: dict[str, Known] = {}
    for run, plat_id, signature, outcome, stage, has_digest in connection.execute(KNOWN, (SIGNATURE,)):
        if plat_id and run not in set_aside and (plat_id not in by_id or by_id[plat_id].deleted):
            asking = files.get(run, nothing)
            by_id[plat_id] = Known(run, signature, asking, stage != "active", outcome, bool(has_digest))
    return by_id


def _files_of_runs(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """Return MLflow id -> experiment files that ask for the run."""
    rows = connection.execute("SELECT key, run_uuid FROM tags WHERE key > 'plat.in.' AND key < 'plat.in/'")
    files: dict[str, frozenset[str]] = {}
    same: dict[frozenset[str], frozenset[str]] = {}  # one object per set, because runs share most of them
    for key, run in rows:
        together = files.get(run, frozenset()) | {key.removeprefix("plat.in.")}
        files[run] = same.setdefault(together, together)
    return files


def _now() -> int:
    return int(clock.time() * 1000)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
