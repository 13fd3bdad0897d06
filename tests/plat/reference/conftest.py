"""A folder with an experiment file, earlier runs of it in a home, and the bundle of these: for tests of references."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from fresh_plat import fresh_plat

EXPERIMENT = """
title: A test
reference: ../results
base: {trainer: toy_hill_climber, climb.games: 20, climb.iterations: 4}
matrix:
  guesses: [3, 4]
  policy: [wild, climber]
  seed: [0]
report:
  - {builder: peak_success_table, rows: scale, columns: guesses, pair: policy, baseline: wild, treatment: climber}
"""
FILE = "experiments/small.yaml"


@pytest.fixture(scope="session")
def swept(toy_paper, empty_store, tmp_path_factory) -> Path:
    """A folder with an experiment file, the home of its runs with six seeds, the bundle of these in `results/`, and a
    home with nothing but a store."""
    folder = tmp_path_factory.mktemp("reference")
    for name in ("earlier", "new"):
        (folder / name).mkdir()
        shutil.copy(empty_store, folder / name / "mlflow.db")
    (folder / "experiments").mkdir()
    (folder / FILE).write_text(EXPERIMENT)
    environment = {key: value for key, value in os.environ.items() if key not in ("PLAT_HOME", "MLFLOW_TRACKING_URI")}
    environment["PYTHONPATH"] = os.pathsep.join([str(toy_paper), os.environ.get("PYTHONPATH", "")])
    for verb in (["sweep"], ["export", "--out", "results"]):
        done = fresh_plat(*verb, FILE, "matrix.seed=range(6)", "--home", "earlier", cwd=folder, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        assert verb != ["sweep"] or "No comparison with reference results: there is no ../results." in done.stdout
    return folder


@pytest.fixture
def checkout(swept, toy_paper, monkeypatch, tmp_path) -> Path:
    """A copy of `swept` that a test may change, with the toy paper's plug-ins published."""
    monkeypatch.syspath_prepend(str(toy_paper))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(toy_paper), os.environ.get("PYTHONPATH", "")]))
    return Path(shutil.copytree(swept, tmp_path / "checkout"))


@pytest.fixture
def plat(plat, checkout, nothing_named, monkeypatch):
    """Run a verb in the folder of the experiment."""
    monkeypatch.chdir(checkout)
    return plat
