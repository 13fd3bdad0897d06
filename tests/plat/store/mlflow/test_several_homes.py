"""Importers of several homes that write to one store at once, through MLflow's client as on a server."""

from __future__ import annotations

import shutil
import threading

import pytest
from store_dump import dump

from plat.errors import StoreError
from plat.store.mlflow import connect, importer, sqlite_file, store_writer
from plat.store.mlflow.client_runs import ClientRuns
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.store_writer import StoreWriter
from plat.store.mlflow.stored_runs import SIGNATURE, WRITING

IMPORTERS = 3


@pytest.fixture
def all_ask_first(monkeypatch):
    """Whoever asks what the store has waits until all have asked: so all of them find nothing."""
    barrier = threading.Barrier(IMPORTERS)

    def together(question):
        def ask(store, *arguments):
            answer = question(store, *arguments)
            if not barrier.broken and not answer:
                barrier.wait(60)
            return answer

        return ask

    for owner, name in ((StoreWriter, "known"), (ClientRuns, "of_file")):
        monkeypatch.setattr(owner, name, together(getattr(owner, name)))
    for module in (connect, importer, store_writer):  # a SQLite file is treated like a server: it has no lock
        monkeypatch.setattr(module, "sqlite_path", lambda uri: None)
    monkeypatch.setattr(sqlite_file, "sqlite_path", lambda uri: None)
    return barrier


def test_a_run_that_several_homes_import_at_once_is_stored_once(make_home, recipe, experiment, all_ask_first, tmp_path):
    recipes = [recipe(number) for number in range(2)]
    file = experiment("table4", recipes)
    homes = [make_home(f"node{number}", store=False) for number in range(IMPORTERS)]
    for home in homes:
        for item in recipes:
            item.write(home)
    alone = make_home("alone")
    shared = tmp_path / "shared.db"
    shutil.copy(alone.database, shared)
    uri = f"sqlite:///{shared}"
    trouble = []

    def bring_in(home):
        try:
            import_runs(home, uri, [file])
        except Exception as error:
            trouble.append(error)

    threads = [threading.Thread(target=bring_in, args=(home,)) for home in homes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    all_ask_first.abort()
    assert not trouble
    import_runs(alone, alone.store_uri(), [file], [item.write(alone) for item in recipes])
    assert dump(uri) == dump(alone.store_uri())


@pytest.fixture
def store(make_home):
    """The URI of an empty store, and its client."""
    uri = make_home("alone").store_uri()
    return uri, mlflow_client(uri)


def test_importers_that_begin_earlier_and_create_later_take_a_run_over_one_after_the_other(store, tmp_path):
    uri, client = store
    written = []

    def created(mark):
        return client.create_run("0", tags={"plat.id": "run", SIGNATURE: f"{WRITING}{mark}"}).info.run_id

    def write(run):
        mlflow_id = created(mark=3) if run is None else run.info.run_id
        written.append(mlflow_id)
        if len(written) < 3:  # meanwhile another importer creates the run, with an earlier mark, and deletes this one
            created(mark=3 - len(written))
            client.delete_run(mlflow_id)
        with store_errors(uri):
            client.set_terminated(mlflow_id)
        return mlflow_id

    assert ClientRuns(uri, client, tmp_path).write_kept(write, "tags.`plat.id` = 'run'") == written[-1]
    assert len(set(written)) == 3
    assert [client.get_run(mlflow_id).info.lifecycle_stage for mlflow_id in written] == ["deleted"] * 2 + ["active"]


def test_what_fails_on_a_run_that_nobody_deletes_is_not_tried_for_ever(store, tmp_path):
    uri, client = store
    written = []

    def write(run):
        written.append(run or client.create_run("0", tags={"plat.id": "run"}))
        raise StoreError("the disk is full")

    with pytest.raises(StoreError, match="the disk is full"):
        ClientRuns(uri, client, tmp_path).write_kept(write, "tags.`plat.id` = 'run'")
    assert len(written) == 2
