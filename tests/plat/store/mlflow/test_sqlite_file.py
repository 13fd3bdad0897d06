"""The file of a SQLite store: made whole or not at all, as MLflow makes it, and known to be unchanged by its stamp."""

from __future__ import annotations

import importlib.metadata
import lzma
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from plat.errors import StoreError
from plat.store.mlflow import sqlite_file
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.sqlite_file import check_file, ensure_sqlite, packaged_store, stamp, store_lock


def schema(path):
    """Return the tables and indexes, with the lines of each sorted: MLflow writes its constraints in any order."""
    with closing(sqlite3.connect(path)) as file:
        rows = file.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return sorted(
        (kind, name, sorted(line.strip(" ,\t") for line in (sql or "").split("\n"))) for kind, name, sql in rows
    )


@pytest.mark.slow
def test_the_empty_store_that_travels_with_plat_is_the_one_that_mlflow_makes(tmp_path):
    """If not, a new MLflow was installed: give `python tests/toy/empty_store.py`, and run the tests of the store."""
    packaged, made = tmp_path / "packaged.db", tmp_path / "made.db"
    packaged.write_bytes(lzma.decompress(packaged_store().read_bytes()))
    command = [sys.executable, "-m", "mlflow", "db", "upgrade", f"sqlite:///{made}"]
    subprocess.run(command, check=True, capture_output=True)
    assert schema(packaged) == schema(made)
    assert importlib.metadata.version("mlflow") in packaged_store().name


def test_making_one_takes_no_seconds_and_leaves_no_scratch(tmp_path):
    began = time.perf_counter()
    path = ensure_sqlite(f"sqlite:///{tmp_path / 'deep' / 'mlflow.db'}")
    assert time.perf_counter() - began < 2 and os.listdir(path.parent) == ["mlflow.db"]
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    check_file(path, to_write=True)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o002, 0o664)])
def test_the_file_has_the_permissions_of_the_umask(tmp_path, mask, mode):
    code = f"import os; os.umask({mask}); from plat.store.mlflow.sqlite_file import ensure_sqlite; "
    subprocess.run([sys.executable, "-c", f"{code}ensure_sqlite('sqlite:///{tmp_path}/mlflow.db')"], check=True)
    assert (tmp_path / "mlflow.db").stat().st_mode & 0o777 == mode


def test_without_a_packaged_store_mlflow_makes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "packaged_store", lambda: tmp_path / "none.xz")
    path = ensure_sqlite(f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert not path.exists()
    mlflow_client(f"sqlite:///{path}").search_experiments()
    check_file(path)


def test_on_a_network_file_system_there_is_no_log_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "file_system", lambda folder: "nfs4")
    path = ensure_sqlite(f"sqlite:///{tmp_path / 'mlflow.db'}")
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_the_file_of_another_program_is_not_touched(tmp_path):
    path = tmp_path / "photos.db"
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE tags (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not an MLflow store"):
        check_file(path)
    assert path.read_bytes() == before


def test_every_change_alters_the_stamp(empty_store, tmp_path):
    path = tmp_path / "mlflow.db"
    path.write_bytes(empty_store.read_bytes())
    assert stamp(path) == stamp(path) and stamp(tmp_path / "none") is None
    seen, client = [stamp(path)], mlflow_client(f"sqlite:///{path}")
    client.search_experiments()
    for number in range(3):
        client.create_experiment(f"mine {number}")
        seen.append(stamp(path))
    assert len({str(numbers) for numbers in seen}) == 4


def test_a_second_importer_waits_for_the_first(tmp_path):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with store_lock(uri), pytest.raises(StoreError, match="another home"), store_lock(uri, timeout=0.1):
        pass
