"""Importers of several homes that write to one store at once, through MLflow's client as on a server."""

from __future__ import annotations

import shutil
import threading

import pytest

from plat.store.mlflow import connect
from plat.store.mlflow.client_runs import ClientRuns
from plat.store.mlflow.client_store import ClientStore
from plat.store.mlflow.dump import dump
from plat.store.mlflow.importer import import_runs

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

    for owner, name in ((ClientStore, "known"), (ClientRuns, "of_file")):
        monkeypatch.setattr(owner, name, together(getattr(owner, name)))
    monkeypatch.setattr(connect, "DIRECT_SCHEMAS", frozenset())  # the client, also for a SQLite file
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
