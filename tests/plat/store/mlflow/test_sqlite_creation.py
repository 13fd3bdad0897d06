"""New SQLite stores: made from a file of SQL, they are what MLflow would have made."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from empty_store import HEAD, schema_file, sql_of

from plat.errors import StoreError
from plat.store.mlflow import sqlite_creation
from plat.store.mlflow.sqlite_creation import ensure_sqlite


def lines(sql):
    """In any order: MLflow's migrations write the constraints of a table in another order each time."""
    return sorted(line.strip().rstrip(",") for line in sql.splitlines())


def default_experiment(database):
    with closing(sqlite3.connect(database)) as connection:
        (row,) = connection.execute("SELECT * FROM experiments").fetchall()
        mode = connection.execute("PRAGMA journal_mode").fetchone()
    assert row[4] == row[5] > 1.7e12, "times of creation and of the last change, in milliseconds"
    return row[:4], row[6:], mode


@pytest.fixture(scope="module")
def by_mlflow(tmp_path_factory):
    """The folder of a store that MLflow made, because there is no file of SQL for its schema."""
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_creation, "schema_revisions", lambda: ("another", frozenset()))
        ensure_sqlite(f"sqlite:///{folder / 'mlflow.db'}")
    return folder


def test_a_new_store_is_the_one_that_mlflow_makes(by_mlflow):
    theirs = by_mlflow / "mlflow.db"
    before = lines(sql_of(theirs)), default_experiment(theirs)
    assert lines(schema_file().read_text()) == sorted([*HEAD.splitlines(), *before[0]]), "see tests/toy/empty_store.py"
    theirs.unlink()
    ours = ensure_sqlite(f"sqlite:///{theirs}")
    assert (lines(sql_of(ours)), default_experiment(ours)) == before
    assert [path.name for path in by_mlflow.iterdir()] == ["mlflow.db"]


def test_a_store_that_cannot_be_made_leaves_nothing(tmp_path, monkeypatch):
    broken = tmp_path / "broken.sql"
    broken.write_text("CREATE TABLE runs (x); CREATE NONSENSE;")
    real = sqlite_creation.make_from_schema
    monkeypatch.setattr(sqlite_creation, "make_from_schema", lambda file, schema: real(file, broken))
    with pytest.raises(StoreError, match="refused"):
        ensure_sqlite(f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.sql"]
