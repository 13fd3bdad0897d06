"""Eight importers of as many homes, killed again and again: each run is active once, and the bin is explained."""

from __future__ import annotations

import random
from contextlib import contextmanager

import pytest
from many_importers import copies_of, one_round, stages
from mlflow_server import MlflowServer
from store_dump import dump

from plat.app.checking import check_results
from plat.store.mlflow.deletion import twins
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.mlflow_client import mlflow_client

IMPORTERS = 8
EACH_ROUND = 3  # new runs


@contextmanager
def sqlite_file(folder):
    yield f"sqlite:///{folder / 'shared.db'}"


@contextmanager
def server(folder):
    database = f"sqlite:///{folder / 'shared.db'}"
    running = MlflowServer(folder, database)
    running.start()
    try:
        yield running.url
    finally:
        running.end()


def hold(make_home, recipe, tmp_path, store, rounds, within):
    """Import some runs in each round, and hold the store against an undisturbed one. The number of twins."""
    rng, alone = random.Random(7), make_home("alone")
    with store(tmp_path) as uri:
        for number in range(rounds):
            for item in range(EACH_ROUND):
                recipe(number * EACH_ROUND + item, kills=[(6, 4)]).write(alone)
            homes = copies_of(alone, tmp_path / f"round{number}", IMPORTERS)
            assert one_round(homes, uri, rng, kills=rng.randrange(2, 6), within=within) == []
        active, unexplained = stages(uri)
        assert set(active.values()) == {1} and len(active) == rounds * EACH_ROUND + 1 and unexplained == []
        import_runs(alone, alone.store_uri())
        assert dump(uri) == dump(alone.store_uri())
        found = twins(homes[0], uri)
        said = [finding.says for finding in check_results(homes[0], uri, fix=False)]
        assert any(f"{len(found)} twin" in line for line in said) == bool(found)
    return len(found)


@pytest.mark.long
def test_eight_importers_into_one_file(make_home, recipe, tmp_path):
    assert hold(make_home, recipe, tmp_path, sqlite_file, rounds=2, within=0.3) == 0


@pytest.mark.chaos
@pytest.mark.parametrize("store", [sqlite_file, server])
def test_eight_importers_and_twenty_rounds(make_home, recipe, tmp_path, store):
    print("twins:", hold(make_home, recipe, tmp_path, store, rounds=20, within=0.3 if store is sqlite_file else 4.0))


def test_what_killed_importers_left_twice_is_put_into_the_bin(make_home, recipe, monkeypatch):
    """Both had created the run, and were killed before either looked for the other's."""
    for module in ("connect", "importer", "store_writer", "stored_runs", "deletion"):  # as on a server
        monkeypatch.setattr(f"plat.store.mlflow.{module}.sqlite_path", lambda uri: None)
    home, item = make_home(), recipe(1)
    item.write(home)
    uri = home.store_uri()
    import_runs(home, uri)
    client = mlflow_client(uri)
    (stored,) = client.search_runs(["1"], "tags.`plat.kind` = 'run'")
    tags = {"plat.kind": "run", "plat.id": item.id, "plat.imported": "being written since 1 by nobody"}
    twin = client.create_run("1", tags=tags).info.run_id
    client.create_run("1", tags={"plat.file": "table4"})
    import_runs(home, uri)
    recipe(2).write(home)
    import_runs(home, uri)
    active, unexplained = stages(uri)
    assert set(active.values()) == {1} and len(active) == 3 and unexplained == []
    assert client.get_run(stored.info.run_id).info.lifecycle_stage == "active"
    assert len(twins(home, uri)) == 2 and twin in twins(home, uri)
