"""While a run executes, MLflow has its curves so far; at the end the store is as without."""

from __future__ import annotations

from store_dump import dump
from toy_runs import toy_run

from plat.app.importing import ImportAsTheyEnd
from plat.dispatch import driver
from plat.dispatch.driver import sweep
from plat.errors import StoreError
from plat.store.home import Home
from plat.store.mlflow.connect import prepare_store
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.mlflow_client import mlflow_client


def test_a_curve_grows_while_the_run_executes(home, tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "LIVE_EVERY", 0.4)
    prepare_store(home.store_uri())  # MLflow is loaded before the run starts
    run, imports, seen = toy_run(seed=1, iterations=120, sleep=0.05), ImportAsTheyEnd(home, home.store_uri(), []), []

    def look(running):
        imports.refresh(running)
        client = mlflow_client(home.store_uri())
        folders = [experiment.experiment_id for experiment in client.search_experiments()]
        for found in client.search_runs(folders, f"tags.`plat.id` = '{run.id}'"):
            seen.append((found.info.status, len(client.get_metric_history(found.info.run_id, "val/success"))))

    assert sweep(home, [run], 1, on_running=look).exit_code == 0
    assert {status for status, _ in seen} == {"RUNNING"}
    assert seen == sorted(seen) and seen[-1][1] > seen[0][1]
    import_runs(home, home.store_uri())
    calm = Home(tmp_path / "calm").create()
    assert sweep(calm, [run], 1).exit_code == 0
    import_runs(calm, calm.store_uri())
    assert dump(home.store_uri()) == dump(calm.store_uri())


def test_a_store_that_cannot_be_used_ends_the_copies_and_not_the_runs(home, monkeypatch):
    monkeypatch.setattr(driver, "LIVE_EVERY", 0.1)
    calls = []

    def fail(running):
        calls.append([run.id for run in running])
        raise StoreError("it does not answer", where="there", fix="wait")

    run = toy_run(seed=1, iterations=20, sleep=0.05)
    assert sweep(home, [run], 1, on_running=fail).counts() == {"done": 1}
    assert len(calls) == 1
