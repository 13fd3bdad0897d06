"""The scripts of `examples/`, in four styles: swept, reported, killed and resumed."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from example_runs import EXAMPLES, NAMES, PATH, curves, curves_alone, has_checkpoint, one_run_of, runs_of, start_alone
from stores import plat
from sweep_processes import wait_for

from plat.spec.expansion.experiment import load_experiment
from plat.store.run_directory.run_files import read_attempt_meta

QUICK = {
    "argparse_torch": ("lr=0.1", "hidden=8", "epochs=2"),
    "hydra": ("optim.lr=0.01", "optim.l2=0.0001", "epochs=2"),
    "shell": ("penalty=0.0", "batch=10", "rounds=2"),
    "notebook": ("lr=0.3", "share=0.5", "trees=20"),
}
METRICS = {"notebook": {"mse", "r2", "final_r2"}}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", PATH)
    for name in ("PLAT_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", NAMES)
def test_three_axes_over_five_seeds_and_a_claim(name: str) -> None:
    experiment = load_experiment(EXAMPLES / name / f"{name}.yaml")
    assert len(experiment.runs) == 2 * 2 * 2 * 5 and len(experiment.claims) == 1
    file = (EXAMPLES / name / f"{name}.yaml").read_text()
    assert 6 <= len(file.splitlines()) <= 24


@pytest.mark.parametrize("name", NAMES)
def test_a_sweep_has_a_table_and_a_line_for_the_claim(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ("sweep", str(EXAMPLES / name / f"{name}.yaml"), "--home", str(tmp_path / "home"), *QUICK[name], "seed=0")
    assert plat(*command) == 0
    out = capfd.readouterr().out
    assert "not enough data  " in out and "The effect of " in out
    found = set()
    for table in (tmp_path / "home" / "reports").glob("*/[em]*.csv"):
        with table.open(newline="") as file:
            found |= {line.get("metric") or line["measure"] for line in csv.DictReader(file)}
    assert found == METRICS.get(name, {"loss", "accuracy"})


def test_a_killed_sweep_ends_with_the_numbers_of_the_script_alone(tmp_path: Path) -> None:
    file, home = one_run_of("argparse_torch", tmp_path), tmp_path / "home"
    alone = start_alone("argparse_torch", tmp_path)
    sweep = [sys.executable, "-m", "plat", "sweep", str(file), "--home", str(home)]
    first = subprocess.Popen(sweep, stdout=subprocess.DEVNULL)
    wait_for(lambda: any(map(has_checkpoint, runs_of(home).values())), timeout=60)
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    assert plat(*sweep[3:]) == 0
    [run] = runs_of(home).values()
    assert read_attempt_meta(run.attempts()[1])["restored_step"] > 0
    assert curves(run) == curves_alone(alone)
