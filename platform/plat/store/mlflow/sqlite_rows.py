"""The rows of a SQLite store, as `mlflow.store.tracking.sqlalchemy_store` would write them; tests hold this to it.

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
from plat.store.mlflow.record import Point
from plat.store.mlflow.report_record import NOTE, REPORT, experiment_note

CACHE = 16_000  # KiB that SQLite may keep of a store while the runs that it knows are read
# The tags of a run lie together, so that one row for each run is quicker than one for each tag, and takes less memory.
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
    """An MLflow run id made from a name: the same in every store."""
    return hashlib.sha256(f"plat {name}".encode()).hexdigest()[:32]


def id_of_new_run(db: sqlite3.Connection, plat_id: str) -> str:
    """The MLflow id of a run that the store does not know: always the same one, unless `plat archive` has set aside an
    earlier run that has it."""
    names = itertools.chain([f"run {plat_id}"], (f"run {plat_id} {number}" for number in itertools.count(2)))
    ids = (mlflow_id(name) for name in names)
    return next(run for run in ids if db.execute(f"{IN_BIN} AND run_uuid = ?", (ARCHIVED, run)).fetchone() is None)


def find_or_make_experiment(db: sqlite3.Connection, name: str, root: str | None) -> tuple[int, str]:
    """(id, artifact location) of an MLflow experiment, made when there is none."""
    query = "SELECT experiment_id, artifact_location, lifecycle_stage FROM experiments WHERE name = ?"
    row = db.execute(query, (name,)).fetchone()
    if row is None:
        db.execute(
            "INSERT INTO experiments (name, lifecycle_stage, creation_time, last_update_time)"
            " VALUES (?, 'active', ?, ?)",
            (name, _now(), _now()),
        )
        (number,) = db.execute("SELECT experiment_id FROM experiments WHERE name = ?", (name,)).fetchone()
        db.execute(
            "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?",
            (f"{root}/{number}", number),
        )
        row = db.execute(query, (name,)).fetchone()
    if row[2] != "active":
        raise DeletedExperiment(name)
    return row[0], row[1]


def insert_run(
    db: sqlite3.Connection, run: str, name: str, experiment: tuple[int, str], status: str, start: int | None = None
) -> None:
    """A new active run of an (experiment id, artifact location); it starts now unless `start` says when."""
    number, location = experiment
    db.execute(
        "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status,"
        " start_time, end_time, source_version, lifecycle_stage, artifact_uri, experiment_id, deleted_time)"
        " VALUES (?, ?, 'UNKNOWN', '', '', ?, ?, ?, NULL, '', 'active', ?, ?, NULL)",
        (run, name, _user(), status, _now() if start is None else start, f"{location}/{run}/artifacts", number),
    )


def set_tags(db: sqlite3.Connection, run: str, tags: Mapping[str, str]) -> None:
    """Write the tags of a run that are new or changed; its other tags stay."""
    db.executemany(
        "INSERT INTO tags (key, value, run_uuid) VALUES (?, ?, ?)"
        " ON CONFLICT (key, run_uuid) DO UPDATE SET value = excluded.value WHERE value IS NOT excluded.value",
        [(key, value, run) for key, value in tags.items()],
    )


def read_tags(db: sqlite3.Connection, run: str) -> dict[str, str]:
    """The tags of a run."""
    return dict(db.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (run,)).fetchall())


def describe_experiment(db: sqlite3.Connection, run: str) -> None:
    """Write the description of the MLflow experiment of a run from the reports of its files."""
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
    """Metric rows, and the newest of each key where MLflow looks for it."""
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
    """Runs by plat id, but for twins and those of `plat archive`. Of several with one plat id an active one counts."""
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
    """MLflow id -> the experiment files that ask for the run."""
    rows = connection.execute("SELECT key, run_uuid FROM tags WHERE key > 'plat.in.' AND key < 'plat.in/'")
    files: dict[str, frozenset[str]] = {}
    same: dict[frozenset[str], frozenset[str]] = {}  # one object for each set: runs share nearly all of theirs
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
