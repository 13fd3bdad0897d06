"""Runs of an experiment of MLflow become runs of plat."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from mlflow import MlflowClient

URI = "sqlite:///theirs.db"


@pytest.fixture
def client(project: Path, empty_store: Path) -> MlflowClient:
    shutil.copy(empty_store, "theirs.db")
    return MlflowClient(f"sqlite:///{project}/theirs.db")


def add(client: MlflowClient, experiment: str, lr: float, seed: int, status: str = "FINISHED") -> None:
    run = client.create_run(experiment, run_name=f"{lr}-{seed}").info.run_id
    client.log_param(run, "lr", lr)
    client.log_param(run, "seed", seed)
    client.log_param(run, "amp", True)
    for step in range(3):
        client.log_metric(run, "loss", lr / (step + 1) + seed, step=step)
        client.log_metric(run, "system/cpu", 1.0, step=step)
    client.set_terminated(run, status)


def test_a_database_gives_its_numbers(plat, client, stored, means):
    experiment = client.create_experiment("theirs", artifact_location="artifacts")
    for lr in (0.1, 0.01):
        for seed in (0, 1):
            add(client, experiment, lr, seed)
    add(client, experiment, 0.5, 0, "FAILED")
    before = Path("theirs.db").read_bytes()
    code, out, err = plat("import", "mlflow", URI, "--experiment", "theirs", "--out", "m.yaml")
    assert (code, err) == (0, "") and "left out, because they did not finish: 1 run (--unfinished" in out
    assert Path("theirs.db").read_bytes() == before
    assert stored("m.yaml", "lr", "seed") == {
        (lr, seed): {"loss": [(step, lr / (step + 1) + seed) for step in range(3)]}
        for lr in (0.1, 0.01)
        for seed in (0, 1)
    }
    assert means("m")["0.1", "loss"][0] == pytest.approx(0.1 / 3 + 0.5)
    assert "# The same in all runs: amp=true\n" in Path("m.yaml").read_text().replace("True", "true")


def test_a_folder_of_runs_is_read(plat, project, stored, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = MlflowClient("mlruns")
    for lr in (0.1, 0.01):
        add(client, "0", lr, 0)
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    assert plat("import", "mlflow", "mlruns", "--out", "m.yaml")[0] == 0
    assert {label: curves["loss"][0] for label, curves in stored("m.yaml", "lr").items()} == {
        (0.1,): (0, 0.1),
        (0.01,): (0, 0.01),
    }


def test_child_runs_are_left_out_and_counted(plat, client):
    experiment = client.create_experiment("nested", artifact_location="artifacts")
    for lr in (0.1, 0.01, 0.5):
        add(client, experiment, lr, 0)
    first, *_, last = client.search_runs([experiment])
    client.set_tag(last.info.run_id, "mlflow.parentRunId", first.info.run_id)
    code, out, _ = plat("import", "mlflow", URI, "--experiment", "nested", "--out", "n.yaml", "--no-sweep")
    assert code == 0 and "child runs of others: 1 run\n" in out and "n.yaml: 2 runs" in out


def test_bad_input_is_refused(plat, client):
    def refused(*arguments: str) -> str:
        code, _, err = plat("import", "mlflow", *arguments, "--out", "new.yaml")
        assert code == 2 and not Path("new.yaml").exists() and not Path("new-runs").exists()
        return err

    assert "no experiment has runs" in refused(URI)
    for name in ("one", "two"):
        number = client.create_experiment(name, artifact_location="artifacts")
        add(client, number, 0.1, 0)
    assert "--experiment NAME (" in refused(URI) and "2 experiments have runs" in refused(URI)
    assert "did you mean 'one'" in refused(URI, "--experiment", "on")
    assert "there is no such store" in refused("sqlite:///other.db") and not Path("other.db").exists()
    assert "did you mean 'loss'" in refused(URI, "--experiment", "one", "--metrics", "los")
    add(client, number, 0.1, 0)
    err = refused(URI, "--experiment", "two")
    assert "two runs have the same values and seed (seed=0)" in err and err.count("0.1-0 (") == 2
    Path("text.db").write_text("no database")
    assert "MLflow: the store is damaged" in refused("sqlite:///text.db")
    with sqlite3.connect("own.db") as connection:
        connection.execute("CREATE TABLE mine (a)")
    before = Path("own.db").read_bytes()
    assert "MLflow: " in refused("sqlite:///own.db") and Path("own.db").read_bytes() == before
    Path("empty").mkdir()
    assert "the folder is no store of MLflow" in refused("empty") and not list(Path("empty").iterdir())
