"""Metrics that an unchanged script logs with MLflow's own client."""

from __future__ import annotations

import math
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from memory_io import MemoryIo

from plat.errors import RunError
from plat.trainer.script import train
from plat.trainer.script.config import ScriptConfig, ScriptRunConfig
from plat.trainer.script.readers.mlflow import NAME, MlflowFile, empty_store


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of a home, in which the first test makes an empty store."""
    return tmp_path_factory.mktemp("cache")


def run(root: Path, cache: Path, text: str) -> MemoryIo:
    """Run a script that imports mlflow, and return what was logged."""
    (root / "train.py").write_text(f"import mlflow, os, time\n{text}")
    io: Any = MemoryIo(root / "a folder", cache)
    script = ScriptConfig(command="python train.py", folder=str(root), metrics="mlflow")
    train.train(ScriptRunConfig(script=script), io)
    return io


def test_metrics_are_followed_in_their_order_while_the_script_runs(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "0123")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    lines = [
        "mlflow.log_param('lr', 0.1)",
        "for step in range(1, 4):",
        "    mlflow.log_metric('loss', 1 / step, step=step)",
        "    mlflow.log_metrics({'a': float('nan'), 'b': float('-inf')}, step=step)",
        "    time.sleep(0.3)",
        "with mlflow.start_run(nested=True): mlflow.log_metric('loss', 9, step=1)",
        "mlflow.log_metric('test', 0.5)",
        "mlflow.log_text('x', 'note.txt')",
    ]
    io = run(tmp_path, cache, "\n".join(lines))
    losses = [(step, metrics["loss"]) for step, metrics in io.logged if "loss" in metrics]
    assert losses == [(1, 1.0), (2, 0.5), (3, 1 / 3)]
    assert (0, {"test": 0.5}) in io.logged and io.times[-1] - io.times[0] > 0.3
    others = {(name, step): value for step, metrics in io.logged for name, value in metrics.items()}
    assert math.isnan(others["a", 1]) and others["b", 1] == -math.inf
    assert [path.name for path in io.files.rglob("note.txt")] == ["note.txt"] and not (tmp_path / "mlruns").exists()


def test_a_second_attempt_begins_with_an_empty_store_and_autolog_works(tmp_path: Path, cache: Path) -> None:
    pytest.importorskip("sklearn")
    (tmp_path / "a folder").mkdir()
    for name in (NAME, f"{NAME}-journal"):
        (tmp_path / "a folder" / name).write_text("of an earlier attempt")
    text = "from sklearn.linear_model import LinearRegression\nmlflow.sklearn.autolog(log_models=False)\n"
    io = run(tmp_path, cache, text + "LinearRegression().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 3.0])")
    assert any("training_r2_score" in metrics for _, metrics in io.logged)


@pytest.mark.parametrize("step", [0, 5])
def test_two_runs_with_the_same_metric_are_not_joined(tmp_path: Path, cache: Path, step: int) -> None:
    text = "with mlflow.start_run(run_name='{}'): mlflow.log_metric('loss', 1, step={})"
    with pytest.raises(RunError, match=r"two runs of MLflow have the metric loss: one \(\w+\) and two \(\w+\)"):
        run(tmp_path, cache, f"{text.format('one', 3)}\n{text.format('two', step)}")
    text = "with mlflow.start_run() as one: mlflow.log_metric('loss', 1, step=3)\nagain = one.info.run_id\n"
    io = run(tmp_path, cache, text + "with mlflow.start_run(run_id=again): mlflow.log_metric('loss', 2, step=4)")
    assert io.logged == [(3, {"loss": 1.0}), (4, {"loss": 2.0})]


def test_a_script_that_logs_elsewhere_is_told_so(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(RunError, match="logged no metric") as error:
        run(tmp_path, cache, f"mlflow.set_tracking_uri('sqlite:///{tmp_path}/other.db')")
    assert "MLFLOW_TRACKING_URI" in str(error.value.fix)


def test_steps_of_one_metric_must_rise_and_a_busy_or_lost_store_is_waited_for(tmp_path: Path, cache: Path) -> None:
    variables = empty_store(tmp_path, cache)
    environment = {**os.environ, **{name: value for name, value in variables.items() if value is not None}}
    text = "import mlflow\nfor step in (5, 3): mlflow.log_metric('loss', 1, step=step)"
    subprocess.run([sys.executable, "-c", text], check=True, env=environment, capture_output=True)
    assert [logged.step for logged in MlflowFile(tmp_path / NAME).new()] == [5, 3]
    file = MlflowFile(tmp_path / "lost.db")
    assert list(file.new()) == []
    with pytest.raises(RunError, match="cannot be read"):
        list(file.new(is_last=True))
    with sqlite3.connect(tmp_path / NAME) as database:
        database.execute("DROP TABLE metrics")
    assert list(MlflowFile(tmp_path / NAME).new()) == []
