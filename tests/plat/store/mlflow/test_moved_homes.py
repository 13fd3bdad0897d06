"""Homes that are moved or copied: every copy reads and writes its own artifacts, and no other's."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from plat.store.home import Home
from plat.store.measured import NAME
from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.report_record import ReportRecord


@pytest.fixture
def filled(home, recipe, experiment, tmp_path):
    """A home with two imported runs and a report logged into MLflow; the experiment file."""
    recipes = [recipe(1), recipe(2)]
    for item in recipes:
        item.write(home)
    file = experiment("table4", recipes)
    import_runs(home, home.store_uri(), [file])
    log_report(home, file, tmp_path, "first")
    return home, file


def log_report(home, file, folder, text):
    page = folder / "page.html"
    page.write_text(text)
    return Store(home.store_uri(), home).log_report(file, {"page.html": page}, ReportRecord({("delta", 0): 1.0}))


def state(home: Home) -> dict[str, str]:
    """Hashes of all files of a home."""
    files = [path for path in sorted(home.root.rglob("*")) if path.is_file()]
    files = [path for path in files if not path.name.endswith(("-shm", "-wal", ".lock"))]
    return {str(path.relative_to(home.root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def pages(home: Home) -> list[str]:
    return [path.read_text() for path in (home.root / "mlartifacts").rglob("report/page.html")]


def test_a_copy_and_its_original_are_independent(filled, recipe, tmp_path):
    home, file = filled
    copy = Home(tmp_path / "copy")
    shutil.copytree(home.root, copy.root)
    before = state(home)
    recipe(3).write(copy)
    assert recipe(3).id in import_runs(copy, copy.store_uri()).imported
    log_report(copy, file, tmp_path, "second")
    assert state(home) == before
    assert (pages(home), pages(copy)) == (["first"], ["second"])
    assert import_runs(home, home.store_uri()).unchanged == 2
    log_report(home, file, tmp_path, "third")
    assert (pages(home), pages(copy)) == (["third"], ["second"])


def test_a_copy_reads_its_own_runs(filled, tmp_path):
    """Also before anything was written to it."""
    home, file = filled
    copy = Home(tmp_path / "copy")
    shutil.copytree(home.root, copy.root)
    for path in (home.root / "mlartifacts").rglob(NAME):
        path.write_bytes(b"changed")
    frames = Store(copy.store_uri(), copy).load(file)
    assert set(frames.tables["name"]) == {"reward_matrix"} and not frames.changed


def test_a_moved_home_finds_everything(filled, tmp_path):
    home, file = filled
    moved = Home(tmp_path / "else where" / "moved")
    moved.root.parent.mkdir()
    shutil.move(home.root, moved.root)
    assert import_runs(moved, moved.store_uri(), [file]).unchanged == 2
    log_report(moved, file, tmp_path, "second")
    assert pages(moved) == ["second"] and not home.root.exists()
    assert len(Store(moved.store_uri(), moved).load(file).tables) == 6


def test_artifacts_that_are_kept_elsewhere_stay_there(home, recipe, experiment, tmp_path):
    """The MLflow experiment was made by the user, with a place of their own."""
    place = tmp_path / "nas" / "mine"
    mlflow_client(home.store_uri()).create_experiment("ragen2 · laptop", str(place))
    single = recipe(1)
    single.write(home)
    file = experiment("table4", [single])
    import_runs(home, home.store_uri(), [file])
    assert len(list(Path(place).rglob(NAME))) == 1
    assert len(Store(home.store_uri(), home).load(file).runs) == 1


def test_a_store_copied_without_its_artifacts_is_restored_from_the_runs(filled, tmp_path):
    home, file = filled
    copy = Home(tmp_path / "copy").create()
    shutil.copy(home.database, copy.database)
    shutil.copytree(home.runs, copy.runs, dirs_exist_ok=True)
    before, expected = state(home), Store(home.store_uri(), home).load(file)
    assert len(Store(copy.store_uri(), copy).load(file).changed) == 2
    report = import_runs(copy, copy.store_uri(), again=True)
    assert len(report.restored) == 2 and "is missing" in report.warnings()[0]
    assert Store(copy.store_uri(), copy).load(file).metrics.equals(expected.metrics)
    assert state(home) == before
