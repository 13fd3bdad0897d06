"""Recorded runs: planned, replayed, and used by the other verbs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import plat as api
from plat.trainer.recorded.spec import recording_path, recording_text

FILE = """
title: Recorded runs
base: {trainer: recorded, recorded.folder: kept, recorded.success: acc}
matrix:
  lr: [0.1, 1]
  seed: range(5)
claims:
  - id: larger-is-better
    says: The larger rate is more accurate.
    check: mean_delta_positive
    measure: {metric: acc}
    smallest: 0.1
"""


def record(lr: float, seed: int, acc: float) -> Path:
    path = recording_path(Path("kept"), {"lr": lr}, seed)
    history = {1: {"acc": acc, "loss": float("inf")}, 3: {"acc": acc / 2}}
    path.write_text(recording_text({"lr": lr}, seed, {"run": "r"}, history))
    return path


@pytest.fixture
def recorded(tmp_path, empty_store, monkeypatch, nothing_named):
    """The current folder with an experiment file, its recordings, and a home with a store."""
    monkeypatch.chdir(tmp_path)
    for folder in ("plat-home", "kept"):
        Path(folder).mkdir()
    shutil.copy(empty_store, "plat-home/mlflow.db")
    Path("mine.yaml").write_text(FILE)
    for lr in (0.1, 1):
        for seed in range(5):
            record(lr, seed, lr / 2 + seed / 100 * (1 + lr))
    return tmp_path


def test_every_verb_takes_recorded_runs(plat, recorded):
    code, out, err = plat("sweep", "mine.yaml")
    assert (code, err) == (0, ""), out
    assert "shown  larger-is-better" in out
    rows = api.load("mine.yaml").metrics
    assert sorted(rows[rows.key == "acc"].step.unique()) == [1, 3] and set(rows[rows.key == "loss"].step) == {1}
    assert plat("claims", "mine.yaml")[0] == 0
    assert "10 done" in plat("status", "mine.yaml")[1]
    first, second = api.status("mine.yaml")[::5]
    assert "lr" in plat("diff", first.id, second.id)[1]
    assert plat("export", "mine.yaml", "--out", "bundle")[0] == 0
    assert plat("import", "bundle", "--home", "other")[0] == 0
    assert "finished at step 3" in plat("run", "trainer=recorded", "recorded.folder=kept", "lr=0.10", "seed=2")[1]


def test_a_cell_without_a_recording_is_refused_with_its_values(plat, recorded):
    code, _, err = plat("plan", "mine.yaml", "matrix.lr=[0.1,0.5]")
    assert code == 2 and "there is no recording of lr=0.5, seed=0" in err and "exclude" in err
    code, _, err = plat("plan", "mine.yaml", "recorded.folder=nowhere")
    assert code == 2 and "there is no folder" in err
    code, _, err = plat("plan", "mine.yaml", "opt=adam")
    assert code == 2 and re.search("no recording of (lr=0.1, opt=adam|opt=adam, lr=0.1), seed=0", err)


def test_a_changed_recording_makes_a_new_run(plat, recorded):
    assert plat("sweep", "mine.yaml")[0] == 0
    assert "Nothing to do" in plat("plan", "mine.yaml")[1]
    record(0.1, 0, 0.9)
    assert "1 missing" in plat("status", "mine.yaml")[1]
    Path("kept").rename("moved")
    record_folder = "recorded.folder=moved"
    assert "1 missing" in plat("status", "mine.yaml", record_folder)[1]


def test_a_damaged_recording_is_refused(plat, recorded):
    path = record(0.1, 0, 0.5)
    for text, message in {
        "": "is damaged",
        '{"a": 1}\n': "has no values",
        '{"values": {"lr": 0.2}, "seed": 0}\n': "has other values",
    }.items():
        path.write_text(text)
        code, _, err = plat("plan", "mine.yaml")
        assert code == 2 and f"the recording of lr=0.1, seed=0 {message}" in err and f"{path.name}:1" in err
    path.write_text('{"values": {"lr": 0.1}, "seed": 0}\n{"step": 1, "metrics": {"acc": 0.5}}\n{"step"\n')
    code = plat("sweep", "mine.yaml")[0]
    assert code == 3 and f"{path.name}:3" in plat("why", api.status("mine.yaml")[0].id)[1]
    path.write_text('{"values": {"lr": 0.1}, "seed": 0}\n')
    plat("sweep", "mine.yaml")
    assert "the recording has no metrics" in plat("why", api.status("mine.yaml")[0].id)[1]
