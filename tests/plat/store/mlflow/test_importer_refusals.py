"""Stores that the importer refuses, and run directories that it reports as damaged."""

from __future__ import annotations

import errno
import json
import os
import sqlite3

import pytest

from plat.errors import StoreError
from plat.store.mlflow import importer, sqlite_file
from plat.store.mlflow.importer import import_runs


def test_a_locked_store_loses_nothing(home, recipe, monkeypatch):
    recipe(1).write(home)
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.1)
    holder = sqlite3.connect(home.database, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="locked") as error:
        import_runs(home, home.store_uri())
    assert "plat sync" in error.value.fix
    holder.execute("ROLLBACK")
    assert import_runs(home, home.store_uri()).imported == [recipe(1).id]


def test_another_import_that_does_not_end(home, recipe, monkeypatch):
    recipe(1).write(home)
    monkeypatch.setattr(importer, "LOCK_SECONDS", 0.1)
    with importer.import_lock(home), pytest.raises(StoreError, match="another import"):
        import_runs(home, home.store_uri())


def test_on_a_file_system_without_locks_one_importer_excludes_another_as_well(home, recipe, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    recipe(1).write(home)
    monkeypatch.setattr("fcntl.flock", refuse)
    monkeypatch.setattr(importer, "LOCK_SECONDS", 0.1)
    with importer.import_lock(home), pytest.raises(StoreError, match="another import"):
        import_runs(home, home.store_uri())
    assert import_runs(home, home.store_uri()).imported == [recipe(1).id]


@pytest.mark.parametrize(
    "revision, message",
    [
        ("ffffffffffff", "another MLflow version"),
        ("0584bdc529eb", "another MLflow version"),
        (None, "table runs is gone"),
    ],
)
def test_a_store_of_another_version(home, recipe, revision, message):
    recipe(1).write(home)
    with sqlite3.connect(home.database) as db:
        if revision is None:
            db.execute("DROP TABLE runs")
        else:
            db.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    with pytest.raises(StoreError, match=message):
        import_runs(home, home.store_uri())


def test_a_damaged_store_and_one_that_cannot_be_made(home, recipe, tmp_path):
    recipe(1).write(home)
    home.database.write_bytes(b"nonsense" * 1000)
    with pytest.raises(StoreError, match="damaged"):
        import_runs(home, home.store_uri())
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        import_runs(home, f"sqlite:///{tmp_path}/file/mlflow.db")
    with pytest.raises(StoreError, match="in-memory"):
        import_runs(home, "sqlite://")
    with pytest.raises(StoreError):
        import_runs(home, "nonsense://somewhere")


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_a_server_that_is_not_there(home, recipe, monkeypatch, scheme):
    recipe(1).write(home)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(StoreError, match="cannot be reached") as error:
        import_runs(home, f"{scheme}://me:secret@127.0.0.1:9/store")
    assert "secret" not in error.value.render()


def test_plain_folders_are_refused_with_advice(home, recipe, tmp_path):
    recipe(1).write(home)
    with pytest.raises(StoreError) as error:
        import_runs(home, f"file://{tmp_path}/mlruns")
    assert "sqlite:///" in error.value.fix


def test_damaged_directories_are_reported_not_fatal(home, recipe):
    recipe(1).write(home)
    without_meta, without_config = recipe(2).write(home), recipe(3).write(home)
    without_meta.meta.write_text("{")
    without_config.config.write_text("a: [")
    report = import_runs(home, home.store_uri())
    assert report.imported == [recipe(1).id] and report.unreadable == [without_meta.id, without_config.id]


@pytest.mark.parametrize("part", [{"axes": 3}, {"axes": ["seed"]}, {"experiments": "table4"}, {"code": [1]}])
def test_a_meta_file_of_another_shape_is_damaged(home, recipe, part):
    """Written without a checksum, as a meta.json of plat 0.1 is."""
    recipe(1).write(home)
    odd = recipe(2).write(home)
    meta = json.loads(odd.meta.read_text()) | part
    odd.meta.write_text(json.dumps({key: value for key, value in meta.items() if key != "checksum"}))
    report = import_runs(home, home.store_uri())
    assert report.imported == [recipe(1).id] and report.unreadable == [odd.id] and report.exit_code == 3
