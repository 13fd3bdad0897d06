"""Reference results as a newcomer meets them: one seed beside earlier runs, and a reference that cannot be used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plat.cli import main
from plat.store.mlflow.sqlite_creation import ensure_sqlite

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


@pytest.fixture(scope="module")
def swept(toy_paper, tmp_path_factory) -> Path:
    """A folder with an experiment file, the home of its runs with six seeds, the bundle of these in `results/`, and a
    home with nothing but a store."""
    folder = tmp_path_factory.mktemp("reference")
    store = ensure_sqlite(f"sqlite:///{folder / 'empty' / 'mlflow.db'}")
    for name in ("earlier", "new"):
        (folder / name).mkdir()
        shutil.copy(store, folder / name / "mlflow.db")
    (folder / "experiments").mkdir()
    (folder / FILE).write_text(EXPERIMENT)
    environment = {key: value for key, value in os.environ.items() if key not in ("PLAT_HOME", "MLFLOW_TRACKING_URI")}
    environment["PYTHONPATH"] = os.pathsep.join([str(toy_paper), os.environ.get("PYTHONPATH", "")])
    for verb in (["sweep"], ["export", "--out", "results"]):
        command = [sys.executable, "-m", "plat", *verb, FILE, "matrix.seed=range(6)", "--home", "earlier"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
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
def plat(capfd, monkeypatch, checkout):
    """Run a verb in this process, in the folder of the experiment: (exit code, stdout, stderr)."""
    monkeypatch.chdir(checkout)
    for name in ("PLAT_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err, out + err
        return int(stop.value.code or 0), out, err

    return run


def test_one_seed_stands_beside_the_reference(plat, checkout):
    code, out, err = plat("sweep", FILE, "--home", "new")
    assert code == 0 and "warning" not in err
    assert "reference" in out and "range" in out and "No comparison" not in out
    assert "of 2 peaks (by chance 0.1 on average" in out
    lines = (checkout / "new" / "reports" / "small" / "peak_success.csv").read_text().splitlines()
    column = lines[0].split(",").index("reference_runs")
    assert {line.split(",")[column] for line in lines[1:] if ",peak," in line} == {"5"}, "without the run itself"
    again = plat("sweep", FILE, "--home", "new")[1]
    assert again.startswith("nothing to do")


def test_another_bundle_makes_the_report_anew(plat, checkout):
    assert plat("sweep", FILE, "--home", "new")[0] == 0
    shutil.rmtree(checkout / "results")
    code, out, _ = plat("sweep", FILE, "--home", "new")
    assert code == 0 and "nothing to do: every run is done, and the report" not in out
    assert out.count("there is no ../results") == 1


def test_other_settings_are_said(plat, checkout):
    code, out, err = plat("sweep", FILE, "climb.games=5", "--home", "new")
    said = "o comparison with ../results: it has no run of these settings (the nearest has climb.games 20, not 5)"
    assert code == 0 and f"warning: n{said}" in err and f"N{said}" in out


def test_a_damaged_reference_is_refused_before_training(plat, checkout):
    shard = checkout / "results" / "runs-0001.parquet"
    shard.write_bytes(shard.read_bytes()[:-1])
    code, _, err = plat("sweep", FILE, "--home", "new")
    assert code == 2 and "instead of" in err and "runs-0001.parquet" in err
    assert "or remove `reference:` from small.yaml" in err
    assert not list((checkout / "new").glob("runs/*"))


@pytest.mark.parametrize("value", ["[1]", "{a: b}"])
def test_a_reference_is_a_path(plat, checkout, value):
    (checkout / FILE).write_text(EXPERIMENT.replace("../results", value))
    code, _, err = plat("plan", FILE, "--home", "new")
    assert code == 2 and "reference is text" in err and "small.yaml:3" in err


def test_the_frames_of_a_bundle_give_the_report_of_the_store(plat, checkout):
    from plat.spec.experiment import load_experiment
    from plat.store.bundle.frames import read_results
    from plat.store.home import Home
    from plat.store.mlflow.frames import Store
    from plat_analysis.report.build import build_report
    from plat_analysis.report.files import report_files

    experiment = load_experiment(checkout / FILE, ["matrix.seed=range(6)"])
    home = Home.find(checkout / "earlier")
    results = read_results(checkout / "results")
    assert results.experiments == {"small": [run.id for run in experiment.runs]}
    assert results.overrides == ("matrix.seed=range(6)",)
    stored = build_report(Store(home.store_uri(), home).load(experiment), experiment)
    assert report_files(build_report(results.frames, experiment)) == report_files(stored)
