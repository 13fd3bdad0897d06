"""`plat init --try`: what a script logs in its first seconds decides the setting that reads it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from plat.app.first_file.making import make_first_file
from plat.app.first_file.write import headline
from plat.errors import SpecError
from plat.spec.expansion.experiment import load_experiment

TEXT = "for step in range(5): print(f'step {step}: train loss {1 / (step + 1):.4f}, val loss {step}', flush=True)\n"
JSON = "import json\nfor step in range(5): print(json.dumps({'step': step, 'accuracy': step / 5}))\n"
CSV = """
import os, pathlib
rows = ["epoch,val_acc", *(f"{epoch},{epoch / 10}" for epoch in range(4))]
folder = pathlib.Path(os.environ["PLAT_RUN_DIR"], "logs")
folder.mkdir()
(folder / "history.csv").write_text("\\n".join(rows))
"""
EVENTS = """
import os
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter(os.environ["PLAT_RUN_DIR"]) as writer:
    for step in range(3): writer.add_scalar("eval/return", step, step)
"""
MLFLOW = "import mlflow\nwith mlflow.start_run():\n    for step in range(3): mlflow.log_metric('rmse', step, step)\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "metrics", "names"),
    [
        (TEXT, "text", ["train_loss", "val_loss"]),
        (JSON, "", ["accuracy"]),
        (CSV, "logs/history.csv", ["val_acc"]),
        (EVENTS, "tensorboard", ["eval/return"]),
        (MLFLOW, "mlflow", ["rmse"]),
    ],
)
def test_the_setting_that_reads_a_script_is_written(source: str, metrics: str, names: list[str]) -> None:
    Path("train.py").write_text(source)
    made = make_first_file("train.py", seconds=60)
    assert made.trial is not None and (made.trial.metrics, made.trial.names, made.trial.code) == (metrics, names, 0)
    (run,) = load_experiment(made.path, []).runs
    assert run.config["script"]["metrics"] == metrics
    assert f"measure: {{metric: {names[-1]}}}" in made.path.read_text()


def test_a_script_that_goes_on_is_ended_and_one_that_logs_nothing_changes_nothing() -> None:
    Path("long.py").write_text(
        "import time\nfor step in range(900): print('epoch', step, 'loss', 1); time.sleep(0.1)\n"
    )
    started = time.monotonic()
    made = make_first_file("long.py", seconds=2)
    assert made.trial is not None and made.trial.code is None and made.trial.metrics == "text"
    assert time.monotonic() - started < 30
    Path("mute.py").write_text("print('bye')\n")
    mute = make_first_file("mute.py", seconds=20).trial
    assert mute is not None and (mute.metrics, mute.lines) == (None, ["bye"])


def test_a_script_that_writes_where_it_runs_gets_a_folder_of_its_own(here: Path) -> None:
    Path("events.py").write_text(EVENTS.replace('os.environ["PLAT_RUN_DIR"]', '"runs/mine"'))
    made = make_first_file("events.py", seconds=60)
    assert made.trial is not None and (made.trial.metrics, made.trial.own_folder) == ("tensorboard", True)
    (run,) = load_experiment(made.path, []).runs
    assert run.config["script"]["own_folder"] is True and not (here / "runs").exists()


def test_a_script_that_fails_is_not_read() -> None:
    Path("crash.py").write_text("print('step 1: loading data, rank: 0')\nraise SystemExit('pass --data')\n")
    trial = make_first_file("crash.py", seconds=20).trial
    assert trial is not None and (trial.metrics, trial.code) == (None, 1) and trial.lines[-1] == "pass --data"


def test_a_required_value_must_be_written_first() -> None:
    Path("needs.py").write_text(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--data', required=True)\n"
        "print(parser.parse_args())\n"
    )
    with pytest.raises(SpecError, match="not tried: the script requires a value for data"):
        make_first_file("needs.py", seconds=5)
    assert Path("needs.yaml").is_file()


def test_the_metric_of_the_first_claim_is_one_of_validation() -> None:
    assert headline(["lr", "train/loss", "val/acc", "val/loss"]) == "val/loss"
    assert headline(["SPS", "charts/episodic_return"]) == "charts/episodic_return"
    assert headline(["x"]) == "x" and headline([]) == "loss"
