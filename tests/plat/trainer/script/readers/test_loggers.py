"""The files of real loggers, each compared with what was logged. A logger that is not installed is skipped.

The loggers that plat's requirements lack are imitated in `test_imitations.py`, from the versions named there.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from plat.trainer.script.readers.metrics_file import MetricsFile, MetricsFiles
from plat.trainer.script.readers.objects import Logged, Source
from plat.trainer.script.readers.trackio import TrackioFiles
from plat.trainer.script.readers.wandb import WandbFiles

Curves = dict[str, dict[int, float]]


def refuse(what: str, where: str, fix: str) -> None:
    raise AssertionError(f"{where}: {what}")


class Followed:
    """A source that is looked at between two calls of a logger."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._found: list[Logged] = []

    def look(self) -> None:
        self._found += self._source.new()

    def curves(self) -> Curves:
        self._found += self._source.new(is_last=True)
        curves: Curves = {}
        for logged in self._found:
            for name, value in logged.metrics.items():
                curves.setdefault(name, {})[logged.step] = value
        return curves


def file_at(path: Path, step: str = "") -> Followed:
    return Followed(MetricsFile(path, step, refuse))


def package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} is not installed: {error}")


def test_lightning(tmp_path: Path) -> None:
    logger = package("lightning.pytorch.loggers").CSVLogger(tmp_path, name="", version="", flush_logs_every_n_steps=1)
    followed, expected = file_at(Path(logger.log_dir, "metrics.csv")), dict[str, dict[int, float]]()
    for step in range(12):
        rows = [{"val_loss": 10.0 + step, "acc": step / 4}] if step % 4 == 3 else []
        for row in [*rows, {"train_loss": 1 / (step + 1), "epoch": step // 4}]:
            logger.log_metrics(row, step)
            followed.look()
            for name, value in row.items():
                expected.setdefault(name, {})[step] = value
    logger.finalize("success")
    assert followed.curves() == {name: pytest.approx(curve) for name, curve in expected.items()}


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_the_logger_of_stable_baselines3(tmp_path: Path, kind: str) -> None:
    logger = package("stable_baselines3.common.logger").configure(str(tmp_path), [kind])
    followed = file_at(tmp_path / f"progress.{kind}", "time/total_timesteps" if kind == "json" else "")
    expected: Curves = {}
    for iteration in range(1, 6):
        row = {"rollout/ep_rew_mean": 9.0 * iteration, "time/fps": 100.0 + iteration}
        row |= {"train/loss": 1 / iteration, "train/entropy_loss": -0.5 * iteration} if iteration > 1 else {}
        for name, value in row.items():
            logger.record(name, value)
            expected.setdefault(name, {})[2048 * iteration] = value
        logger.record("time/total_timesteps", 2048 * iteration)
        logger.dump(2048 * iteration)
        followed.look()
    logger.close()
    assert followed.curves() == {name: pytest.approx(curve, rel=1e-6) for name, curve in expected.items()}


def test_the_monitor_of_stable_baselines3(tmp_path: Path) -> None:
    monitor = package("stable_baselines3.common.monitor").Monitor
    environment = monitor(package("gymnasium").make("CartPole-v1"), str(tmp_path))
    followed, returns = file_at(tmp_path / "monitor.csv"), []
    for seed in range(3):
        environment.reset(seed=seed)
        done = False
        while not done:
            _, _, terminated, truncated, info = environment.step(0)
            done = terminated or truncated
        returns.append(info["episode"]["r"])
        followed.look()
    environment.close()
    curves = followed.curves()
    assert curves["r"] == dict(enumerate(returns, start=1)) and sorted(curves) == ["l", "r", "t"]


def test_keras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    logger = package("keras").callbacks.CSVLogger(str(tmp_path / "log.csv"))
    followed = file_at(tmp_path / "log.csv")
    logger.set_model(type("Model", (), {"stop_training": False})())
    logger.on_train_begin()
    for epoch in range(3):
        logger.on_epoch_end(epoch, {"loss": 1 / (epoch + 1), "val_loss": 2.0 + epoch})
        followed.look()
    logger.on_train_end()
    losses = {epoch: pytest.approx(1 / (epoch + 1)) for epoch in range(3)}
    assert followed.curves() == {"loss": losses, "val_loss": {0: 2.0, 1: 3.0, 2: 4.0}}


def test_the_trainer_of_hugging_face(tmp_path: Path) -> None:
    state = package("transformers.trainer_callback").TrainerState()
    followed = Followed(
        MetricsFiles(tmp_path, "*/trainer_state.json", lambda p, known: MetricsFile(p, "", refuse, known))
    )
    for step in (5, 10):
        state.global_step = step
        state.log_history += [
            {"loss": 1 / step, "epoch": step / 7, "step": step},
            {"eval_loss": 2 / step, "step": step},
        ]
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        state.save_to_json(str(folder / "trainer_state.json"))
        followed.look()
    expected: Curves = {}
    for row in state.log_history:
        for name in row.keys() - {"step"}:
            expected.setdefault(name, {})[row["step"]] = row[name]
    assert followed.curves() == expected


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = package("wandb")
    for name, value in (("MODE", "offline"), ("DIR", str(tmp_path)), ("SILENT", "true")):
        monkeypatch.setenv(f"WANDB_{name}", value)
    followed = Followed(WandbFiles(tmp_path, refuse))
    with wandb.init(project="mine", dir=tmp_path) as run:
        for step in range(5):
            run.log({"loss": 1 / (step + 1), "train": {"acc": step / 4}, "note": "x"})
            followed.look()
        run.log({"test": float("inf")})
    assert followed.curves() == {
        "loss": {step: 1 / (step + 1) for step in range(5)},
        "train.acc": {step: step / 4 for step in range(5)},
        "test": {5: float("inf")},
    }


def test_two_runs_of_wandb_have_counters_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = package("wandb")
    for name, value in (("MODE", "offline"), ("DIR", str(tmp_path)), ("SILENT", "true")):
        monkeypatch.setenv(f"WANDB_{name}", value)
    for fold in ("a", "b"):
        with wandb.init(project="mine", id=fold, dir=tmp_path) as run:
            run.log({"loss": 1.0})
    assert {logged.counter for logged in WandbFiles(tmp_path, refuse).new(is_last=True)} == {"run-a", "run-b"}


def test_trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    trackio = package("trackio")
    followed = Followed(TrackioFiles(tmp_path, refuse))
    trackio.init(project="mine", name="one", config={"lr": 0.1})
    for step in range(4):
        trackio.log({"loss": 1 / (step + 1), "train": {"acc": step / 4}})
        followed.look()
    trackio.log({"test": float("-inf")}, step=9)
    trackio.finish()
    expected: Curves = {"loss": {step: 1 / (step + 1) for step in range(4)}, "test": {9: float("-inf")}}
    expected |= {"train.acc": {step: step / 4 for step in range(4)}}
    assert followed.curves() == expected
    storage = importlib.import_module("trackio.sqlite_storage").SQLiteStorage
    storage.export_to_parquet()
    for path in tmp_path.glob("*.db*"):
        path.unlink()
    numbers = {name: {step: value for step, value in curve.items()} for name, curve in expected.items()}
    assert Followed(TrackioFiles(tmp_path, refuse)).curves() == numbers


def test_the_files_are_json_where_they_say_so(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps([{"step": 1, "a": 1}, {"step": 2, "a": 2}], indent=1))
    assert file_at(tmp_path / "m.json").curves() == {"a": {1: 1.0, 2: 2.0}}
    (tmp_path / "m.json").write_text('{"step": 1, "a": 1}\n')
    followed = file_at(tmp_path / "m.json")
    followed.look()
    with (tmp_path / "m.json").open("a") as file:
        file.write('{"step": 2, "a": 2}\n{"step": 3, ')
    followed.look()
    with (tmp_path / "m.json").open("a") as file:
        file.write('"a": 3}\n')
    assert followed.curves() == {"a": {1: 1.0, 2: 2.0, 3: 3.0}}
