"""Homes that are moved or copied: every copy reads and writes its own artifacts, and no other's."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from plat.errors import StoreError
from plat.store.home import Home
from plat.store.mlflow.connect import open_backend
from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_lock, import_runs
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.relocation import is_moved
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
    return Store(home.store_uri(), home).log_report(file, {"page.html": page}, ReportRecord({"delta": 1.0}))


def state(home: Home) -> dict[str, str]:
    """Hashes of all files of a home."""
    files = [path for path in sorted(home.root.rglob("*")) if path.is_file()]
    files = [path for path in files if not path.name.endswith(("-shm", "-wal", ".lock"))]
    return {str(path.relative_to(home.root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def page_of(home: Home, run: str) -> str:
    """The logged report, as MLflow's own client finds it."""
    return Path(mlflow_client(home.store_uri()).download_artifacts(run, "report/page.html")).read_text()


def test_a_copy_and_its_original_are_independent(filled, recipe, tmp_path):
    home, file = filled
    copy = Home(tmp_path / "copy")
    shutil.copytree(home.root, copy.root)
    before = state(home)
    assert is_moved(copy.store_uri()) and not is_moved(home.store_uri())
    recipe(3).write(copy)
    assert import_runs(copy, copy.store_uri()).imported == [recipe(3).id]
    run = log_report(copy, file, tmp_path, "second")
    assert state(home) == before
    assert (page_of(home, run), page_of(copy, run)) == ("first", "second")
    assert not is_moved(copy.store_uri())
    assert import_runs(home, home.store_uri()).unchanged == 2
    log_report(home, file, tmp_path, "third")
    assert (page_of(home, run), page_of(copy, run)) == ("third", "second")


def test_a_copy_reads_its_own_tables(filled, tmp_path):
    """Also before anything was written to it, and where it may not be."""
    home, file = filled
    copy = Home(tmp_path / "copy")
    shutil.copytree(home.root, copy.root)
    for path in (home.root / "mlartifacts").rglob("tables.jsonl"):
        path.write_text('{"name": "changed", "step": 0, "data": 0}\n')
    assert set(Store(copy.store_uri(), copy).load(file).tables["name"]) == {"reward_matrix"}


@pytest.mark.parametrize("through_client", [False, True])
def test_a_moved_home_finds_everything(filled, tmp_path, monkeypatch, through_client):
    """An import with nothing new fixes it, with our own SQL and where the schema is left to MLflow's client."""
    if through_client:
        monkeypatch.setattr("plat.store.mlflow.connect.DIRECT_SCHEMAS", frozenset())
    home, file = filled
    moved = Home(tmp_path / "else where" / "moved")
    moved.root.parent.mkdir()
    shutil.move(home.root, moved.root)
    assert import_runs(moved, moved.store_uri(), [file]).unchanged == 2
    assert not is_moved(moved.store_uri()) and not home.root.exists()
    run = log_report(moved, file, tmp_path, "second")
    assert page_of(moved, run) == "second"
    assert len(Store(moved.store_uri(), moved).load(file).tables) == 6
    client = mlflow_client(moved.store_uri())
    for actual in client.search_runs([client.get_run(run).info.experiment_id]):
        assert client.list_artifacts(actual.info.run_id)
    assert not home.root.exists()


def test_a_home_under_another_name_is_not_moved(filled, tmp_path):
    home, _ = filled
    (tmp_path / "link").symlink_to(home.root)
    assert not is_moved(Home(tmp_path / "link").store_uri())


def test_artifacts_that_are_kept_elsewhere_stay_there(filled, tmp_path):
    """A place of the user's own, with or without the same folder name, in a home that is moved."""
    home, _ = filled
    client = mlflow_client(home.store_uri())
    (tmp_path / "nas" / "mlartifacts").mkdir(parents=True)
    elsewhere = ["s3://bucket/mlartifacts/7", f"{tmp_path}/nas/mlartifacts/mine", "relative/mlartifacts/x"]
    for number, place in enumerate(elsewhere):
        client.create_experiment(f"mine {number}", place if "relative" not in place else f"{tmp_path}/{place}")
    moved = Home(tmp_path / "moved")
    shutil.move(home.root, moved.root)
    with import_lock(moved):
        open_backend(moved, moved.store_uri()).close()
    client = mlflow_client(moved.store_uri())
    kept = [client.get_experiment_by_name(f"mine {number}").artifact_location for number in range(3)]
    assert kept == [elsewhere[0], elsewhere[1], f"{tmp_path}/{elsewhere[2]}"]
    assert str(home.root) not in str([actual.artifact_location for actual in client.search_experiments()])


def test_a_store_copied_without_its_artifacts_is_refused(filled, recipe, tmp_path):
    """Its tables would be missing from every report; the original is not touched."""
    home, _ = filled
    copy = Home(tmp_path / "copy").create()
    shutil.copy(home.database, copy.database)
    before = state(home)
    recipe(3).write(copy)
    with pytest.raises(StoreError, match="without its artifacts") as error:
        import_runs(copy, copy.store_uri())
    assert f"cp -r {home.root}/mlartifacts {copy.root}/mlartifacts" in error.value.fix
    shutil.copytree(home.root / "mlartifacts", copy.root / "mlartifacts")
    assert import_runs(copy, copy.store_uri()).imported == [recipe(3).id]
    assert state(home) == before
