"""Runs are taken away together with what MLflow has of them, and can be done or brought back again."""

from __future__ import annotations

import shutil

import pytest
from runner_runs import make
from store_dump import dump
from toy_runs import comparable

from plat.errors import HomeError
from plat.runner.execution import execute
from plat.store.cleaning.garbage import remove_runs
from plat.store.home import Home
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.run_directory import lease
from plat.store.run_directory.lease import LeaseHeld


@pytest.fixture
def two(tmp_path, empty_store):
    """A home with two finished runs in its store: (home, uri, runs)."""
    home = Home(tmp_path / "home").create()
    shutil.copy(empty_store, home.database)
    runs = [make(home, seed=seed) for seed in (0, 1)]
    for run in runs:
        execute(home, run.id)
    import_runs(home, home.store_uri())
    return home, home.store_uri(), runs


def stored_ids(uri):
    return {name for runs in dump(uri).values() for name in runs if not name.startswith("file ")}


def test_a_removed_run_is_gone_everywhere_and_can_be_done_again(two):
    home, uri, (first, second) = two
    before, content = dump(uri), comparable(first)
    remove_runs(home, uri, [first])
    assert not first.root.exists() and second.root.exists()
    assert stored_ids(uri) == {second.id}
    report = import_runs(home, uri)
    assert report.unchanged == 1 and not report.deleted
    again = make(home, seed=0)
    assert execute(home, again.id) == "finished" and comparable(again) == content
    assert import_runs(home, uri).imported == [again.id]
    assert {name: sorted(runs) for name, runs in dump(uri).items()} == {n: sorted(r) for n, r in before.items()}


def test_what_plat_04_archived_is_imported_again_when_its_folder_is_moved_back(two):
    """It moved the run's folder to HOME/archive, and the MLflow run into MLflow's bin with a tag."""
    home, uri, (first, second) = two
    client = mlflow_client(uri)
    places = [experiment.experiment_id for experiment in client.search_experiments()]
    (stored,) = client.search_runs(places, f"tags.`plat.id` = '{first.id}'")
    client.set_tag(stored.info.run_id, "plat.archived", "1")
    client.delete_run(stored.info.run_id)
    archive = home.root / "archive"
    archive.mkdir()
    shutil.move(first.root, archive / first.id)
    report = import_runs(home, uri)
    assert report.unchanged == 1 and not report.deleted
    shutil.move(archive / first.id, first.root)
    assert import_runs(home, uri).imported == [first.id] and stored_ids(uri) == {first.id, second.id}
    assert import_runs(home, uri).unchanged == 2


def test_a_run_that_goes_on_is_left_alone(two):
    home, uri, runs = two
    held = lease.take(runs[1])
    before = dump(uri)
    with pytest.raises(LeaseHeld):
        remove_runs(home, uri, runs)
    assert all(run.result.exists() for run in runs) and dump(uri) == before
    held.release()
    assert lease.state(runs[0]) == "free", "what was held for it is given back"


def test_a_home_without_a_store(tmp_path):
    home = Home(tmp_path / "home").create()
    run = make(home)
    execute(home, run.id)
    remove_runs(home, home.store_uri(), [run])
    assert not run.root.exists() and not home.database.exists()


@pytest.mark.parametrize("of", ["run", "shard"])
def test_a_run_outside_of_the_home_is_not_removed_through_a_link(two, tmp_path, of):
    home, uri, (first, second) = two
    place = first.root if of == "run" else first.root.parent
    shutil.move(place, tmp_path / "outside")
    place.symlink_to(tmp_path / "outside")
    before = dump(uri), sorted((tmp_path / "outside").rglob("*"))
    with pytest.raises(HomeError, match="outside of the home"):
        remove_runs(home, uri, [second, first])
    assert (dump(uri), sorted((tmp_path / "outside").rglob("*"))) == before and second.result.exists()
