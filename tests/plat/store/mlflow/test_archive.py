"""Stores and homes that may only be read, that are locked, full, of another version, or not there."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from plat.app import importing
from plat.cli.verbs import claims, doctor, report, sync
from plat.errors import HomeError, StoreError
from plat.store.home import Home
from plat.store.mlflow import sqlite_file
from plat.store.mlflow.connect import check_store
from plat.store.mlflow.importer import import_lock, import_runs


@pytest.fixture
def filled(home, recipe, experiment):
    single = recipe(1)
    single.write(home)
    file = experiment("table4", [single])
    import_runs(home, home.store_uri(), [file])
    return home, file


READ = """
import os, sys
from pathlib import Path
from plat.store.home import Home
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.frames import Store

def show(folder):
    home = Home(Path(folder))
    print(import_runs(home, home.store_uri()).unchanged, len(Store(home.store_uri(), home).load("table4").metrics))

show(sys.argv[1])  # as root: afterwards every module is loaded, also where only root may read them
os.setgroups([]); os.setgid(65534); os.setuid(65534)
show(sys.argv[2])
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second user to whom files are read-only")
@pytest.mark.parametrize("folder_mode", [0o555, 0o777])
def test_an_archive_is_read_by_somebody_who_may_not_write(filled, folder_mode):
    """Everything imported: an import has nothing to write, and SQLite needs no log beside the file."""
    home, _ = filled
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        archive = Home(Path(folder) / "archive")
        shutil.copytree(home.root, archive.root, copy_function=shutil.copy2)
        archive.database.chmod(0o444)
        archive.root.chmod(folder_mode)
        command = [sys.executable, "-c", READ, home.root, archive.root]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "36"] * 2, done.stderr


def test_results_of_an_archive_are_shown_with_a_warning(filled, recipe, monkeypatch, caplog):
    home, file = filled
    recipe(2).write(home)
    monkeypatch.setattr(importing, "import_all", refuse)
    with pytest.raises(HomeError):  # may be written: then it is an error
        importing.catch_up(home, home.store_uri(), [file])
    monkeypatch.setattr(os, "access", lambda *_: False)
    importing.catch_up(home, home.store_uri(), [file])
    assert "the store is not brought up to date: cannot lock" in caplog.text


def refuse(home, *_):
    raise HomeError("cannot lock the home directory", where=str(home.root))


def test_an_impatient_import(filled, recipe):
    """While a sweep goes on, a locked store costs moments."""
    home, _ = filled
    recipe(2).write(home)
    holder = sqlite3.connect(home.database, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    with pytest.raises(StoreError, match="locked"):
        import_runs(home, home.store_uri(), timeout=0.1)
    with import_lock(home), pytest.raises(StoreError, match="another import"):
        import_runs(home, home.store_uri(), timeout=0.1)
    assert time.monotonic() - started < sqlite_file.BUSY_SECONDS
    assert doctor.check_store(home, home.store_uri()).level == "warning"
    holder.execute("ROLLBACK")
    assert import_runs(home, home.store_uri(), timeout=0.1).imported == [recipe(2).id]


def test_a_home_of_a_newer_version_is_never_written(home, recipe, experiment, tmp_path):
    recipe(1).write(home)
    (home.root / "home.json").write_text(json.dumps({"format": 99}))
    shutil.rmtree(home.reports, ignore_errors=True)
    before = sorted(home.root.rglob("*"))
    for attempt in (
        home.checked,
        home.create,
        lambda: import_runs(home, home.store_uri()),
        lambda: claims.claims([_file(tmp_path)], home=home.root),
        lambda: report.report([_file(tmp_path)], home=home.root),
        lambda: sync.sync([], home=home.root),
    ):
        with pytest.raises(HomeError, match="newer plat"):
            attempt()
    assert sorted(home.root.rglob("*")) == before


def _file(folder):
    path = folder / "one.yaml"
    path.write_text("title: One\nbase: {task: sokoban}\n")
    return str(path)


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    home = tmp_path / "home"
    code = "import resource, signal, sys; from pathlib import Path; from plat.store.home import Home\n"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "Home(Path(sys.argv[1])).create()", home], capture_output=True, text=True
    )
    assert "HomeError: cannot write to the home directory" in done.stderr
    assert sorted(path.name for path in home.iterdir()) == ["cache", "runs"]


def test_sync_asks_the_store_and_makes_no_home(home, tmp_path):
    with pytest.raises(HomeError, match="no home"):
        sync.sync([], home=tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(StoreError):
        sync.sync([], home=home.root, store="nosuch://x")
    assert sync.sync([], home=home.root) == 0


@pytest.mark.parametrize("uri", ["nosuch://x", "sqlite://"])
def test_stores_that_cannot_be_used(home, uri):
    with pytest.raises(StoreError):
        check_store(home, uri)
    assert doctor.check_store(home, uri).level == "error"


@pytest.mark.parametrize(
    "damage, says", [("newer", "another MLflow"), ("nonsense", "damaged"), ("folder", "is a folder")]
)
def test_the_doctor_sees_what_other_verbs_refuse(home, damage, says):
    assert doctor.check_store(home, home.store_uri()).level == "ok"
    other = home.root / "other.db"
    if damage == "newer":
        shutil.copy(home.database, other)
        with sqlite3.connect(other) as db:
            db.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    elif damage == "nonsense":
        other.write_bytes(b"nonsense" * 1000)
    else:
        other.mkdir()
    actual = doctor.check_store(home, f"sqlite:///{other}")
    assert actual.level == "error" and says in actual.says and actual.fix
    assert Home(home.root).exists()
