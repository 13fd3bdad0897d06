"""New SQLite stores: made from a file of SQL, they are what MLflow would have made."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
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
    assert sorted(path.name for path in by_mlflow.iterdir()) == [".mlflow.db.lock", "mlflow.db"]


def test_a_store_that_cannot_be_made_leaves_nothing(tmp_path, monkeypatch):
    broken = tmp_path / "broken.sql"
    broken.write_text("CREATE TABLE runs (x); CREATE NONSENSE;")
    real = sqlite_creation.make_from_schema
    monkeypatch.setattr(sqlite_creation, "make_from_schema", lambda file, schema: real(file, broken))
    with pytest.raises(StoreError, match="refused"):
        ensure_sqlite(f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mlflow.db.lock", "broken.sql"]


def test_what_is_no_file_is_refused_and_left_alone(tmp_path):
    pipe = tmp_path / "mlflow.db"
    os.mkfifo(pipe)
    with pytest.raises(StoreError, match="the store's file is a pipe"):
        ensure_sqlite(f"sqlite:///{pipe}")
    assert pipe.is_fifo()


WRITER = """
import sqlite3, sys, time
from pathlib import Path
from plat.store.mlflow.sqlite_creation import ensure_sqlite
folder, number = Path(sys.argv[1]), sys.argv[2]
(folder / f"ready-{number}").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
database = sqlite3.connect(ensure_sqlite(f"sqlite:///{folder / 'mlflow.db'}"), timeout=60)
database.execute(f"CREATE TABLE of_{number} (x)")
database.commit()
"""


@pytest.mark.parametrize("round_", range(3))
def test_of_many_that_make_a_store_at_once_each_writes_into_the_same(tmp_path, round_):
    """Each is of another home, so that they share no import lock."""
    count = 8
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, str(number)], stderr=subprocess.PIPE) for number in range(count)]
    until = time.monotonic() + 60
    while len(list(tmp_path.glob("ready-*"))) < count and time.monotonic() < until:
        time.sleep(0.01)
    (tmp_path / "go").touch()
    assert [writer.communicate(timeout=60)[1].decode() for writer in writers] == [""] * count
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as connection:
        made = connection.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'of!_%' ESCAPE '!'").fetchone()
    assert made == (count,)


@pytest.mark.parametrize("mask", [0o002, 0o022, 0o077])
def test_a_store_has_the_rights_that_the_umask_gives(tmp_path, mask):
    """SQLite itself gives the group none, so that nobody else of a shared home could import."""
    code = f"import os; os.umask({mask}); from plat.store.mlflow.sqlite_creation import ensure_sqlite; "
    code += "import sqlite3, sys; p = ensure_sqlite('sqlite:///' + sys.argv[1]); "
    code += "d = sqlite3.connect(p); d.execute('create table t (x)'); "
    code += "print(*(oct(f.stat().st_mode & 0o777) for f in sorted(p.parent.glob('mlflow.db*'))))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "mlflow.db")], capture_output=True, text=True)
    assert set(done.stdout.split()) == {oct(0o666 & ~mask)} and len(done.stdout.split()) >= 2, done.stderr
