"""Runs are taken away together with what MLflow has of them, and can be done or brought back again."""

from __future__ import annotations

import shutil

import pytest
from runner_runs import make
from store_dump import dump
from toy_runs import comparable

from plat.errors import SpecError
from plat.runner.execution import execute
from plat.store.cleaning.removal import archive_runs, archived_runs, remove_runs, restore_runs
from plat.store.home import Home
from plat.store.mlflow import deletion, importer
from plat.store.mlflow.client_store import ClientStore
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


def test_an_archived_run_comes_back_as_it_was(two):
    home, uri, (first, _) = two
    before, content = dump(uri), comparable(first)
    archive_runs(home, uri, [first])
    assert [run.id for run in archived_runs(home)] == [first.id] and not first.root.exists()
    assert import_runs(home, uri).unchanged == 1, "what is archived is not asked about"
    restore_runs(home, uri, archived_runs(home))
    assert comparable(first) == content and lease.state(first) == "free" and not archived_runs(home)
    assert import_runs(home, uri).unchanged == 2 and dump(uri) == before


def test_a_run_that_was_done_again_meanwhile_is_not_overwritten(two):
    home, uri, (first, _) = two
    archive_runs(home, uri, [first])
    execute(home, make(home, seed=0).id)
    with pytest.raises(SpecError, match="newer runs have the same ids"):
        restore_runs(home, uri, archived_runs(home))
    with pytest.raises(SpecError, match="in the archive already"):
        archive_runs(home, uri, [home.run(first.id)])


def test_of_several_those_come_back_that_were_not_done_again(two):
    home, uri, (first, second) = two
    content = comparable(second)
    archive_runs(home, uri, [first, second])
    again = make(home, seed=0)
    execute(home, again.id)
    import_runs(home, uri)
    newer = again.result.stat()
    assert restore_runs(home, uri, archived_runs(home)) == [first.id]
    assert comparable(second) == content and again.result.stat() == newer
    assert [run.id for run in archived_runs(home)] == [first.id]
    assert import_runs(home, uri).unchanged == 2 and stored_ids(uri) == {first.id, second.id}
    remove_runs(home, uri, [again])
    assert restore_runs(home, uri, archived_runs(home)) == [] and import_runs(home, uri).unchanged == 2


def through_the_client(monkeypatch):
    """Write to the SQLite store as to a server: through MLflow's client, which chooses the MLflow ids."""
    monkeypatch.setattr(deletion, "sqlite_path", lambda uri: None)
    monkeypatch.setattr(importer, "sqlite_path", lambda uri: None)
    monkeypatch.setattr(importer, "open_backend", lambda home, uri, timeout=None: ClientStore(uri, home))


@pytest.mark.parametrize("kind", ["file", "server"])
def test_an_archived_run_that_is_done_anew_is_imported_anew(two, kind, monkeypatch):
    home, uri, (first, second) = two
    before = dump(uri)
    if kind == "server":
        through_the_client(monkeypatch)
    archive_runs(home, uri, [first])
    again = make(home, seed=0)
    execute(home, again.id)
    report = import_runs(home, uri)
    assert report.imported == [again.id] and not report.deleted and stored_ids(uri) == {first.id, second.id}
    assert import_runs(home, uri).unchanged == 2
    remove_runs(home, uri, [again])
    assert stored_ids(uri) == {second.id}
    restore_runs(home, uri, archived_runs(home))
    assert import_runs(home, uri).unchanged == 2 and dump(uri) == before, "the archived one is there, as it was"


@pytest.mark.parametrize("kind", ["file", "server"])
def test_a_run_that_a_person_deleted_in_mlflow_stays_deleted_when_it_is_archived_too(two, kind, monkeypatch):
    home, uri, (first, _) = two
    client = mlflow_client(uri)
    (stored,) = client.search_runs(
        [experiment.experiment_id for experiment in client.search_experiments()], f"tags.`plat.id` = '{first.id}'"
    )
    client.delete_run(stored.info.run_id)
    if kind == "server":
        through_the_client(monkeypatch)
    archive_runs(home, uri, [first])
    execute(home, make(home, seed=0).id)
    report = import_runs(home, uri)
    assert report.deleted == [first.id] and report.in_bin == [stored.info.run_id]


def test_a_kill_amid_archiving_loses_nothing(two, monkeypatch):
    home, uri, (first, _) = two
    before = dump(uri)
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr("plat.store.cleaning.removal._rename", interrupted)
        archive_runs(home, uri, [first])
    assert import_runs(home, uri).imported == [first.id]
    archive_runs(home, uri, [first])
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr("plat.store.cleaning.removal._rename", interrupted)
        restore_runs(home, uri, archived_runs(home))
    restore_runs(home, uri, archived_runs(home))
    assert import_runs(home, uri).unchanged == 2
    assert {name: sorted(runs) for name, runs in dump(uri).items()} == {n: sorted(r) for n, r in before.items()}


def interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("take_away", [remove_runs, archive_runs])
def test_a_run_that_goes_on_is_left_alone(two, take_away):
    home, uri, runs = two
    held = lease.take(runs[1])
    before = dump(uri)
    with pytest.raises(LeaseHeld):
        take_away(home, uri, runs)
    assert all(run.result.exists() for run in runs) and dump(uri) == before
    held.release()
    assert lease.state(runs[0]) == "free", "what was held for it is given back"


def test_a_home_without_a_store(tmp_path):
    home = Home(tmp_path / "home").create()
    run = make(home)
    execute(home, run.id)
    remove_runs(home, home.store_uri(), [run])
    assert not run.root.exists() and not home.database.exists()
