"""Metrics of scripts: lines of JSON, JSON lines in a file, CSV."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

import plat
from plat.errors import RunError
from plat.trainer.script.metrics import Lines, Logged, MetricsFile
from plat.trainer.script.tensorboard import EventFiles


def test_a_line_of_json_with_numbers_is_metrics_and_no_other_line_is() -> None:
    lines = Lines("")
    assert lines.of_text('{"step": 4, "loss": 0.5, "note": "x", "ok": true}', 9.0) == Logged(4, {"loss": 0.5}, 9.0)
    assert lines.of_text('{"loss": 0.25, "time": 7}', 9.0) == Logged(5, {"loss": 0.25}, 7.0)
    for other in ("epoch 3", "{not json", "[1]", '{"step": 1}', '{"note": "x"}', "", "{" * 5000):
        assert lines.of_text(other) is None
    logged = lines.of_text(b'{"epoch": 6, "loss": NaN}')
    assert logged is not None and logged.step == 6 and math.isnan(logged.metrics["loss"])


def test_the_step_may_have_any_name() -> None:
    assert Lines("updates").of_values({"step": 1.5, "updates": 3}, 1.0) == Logged(3, {"step": 1.5}, 1.0)
    for wrong in ("-1", "1e300", "NaN", '"first"', "0.5", "12345678901234567890", "9" * 400):
        with pytest.raises(RunError, match="no whole number from 0 to") as error:
            Lines("").of_text(f'{{"epoch": {wrong}, "loss": 1}}')
        assert "epoch is " in error.value.what and "script.step" in str(error.value.fix)


@pytest.mark.parametrize("name", ["metrics.csv", "metrics.jsonl"])
def test_a_file_is_read_as_it_grows(tmp_path: Path, name: str) -> None:
    file = MetricsFile(tmp_path / name, "")
    assert list(file.new()) == []
    rows = [(1, 0.5), (2, 0.25), (3, 0.125)]
    if name.endswith(".csv"):
        lines = ["step,loss,name\n", *(f"{step},{loss},x\n" for step, loss in rows)]
    else:
        lines = [json.dumps({"step": step, "loss": loss}) + "\n" for step, loss in rows]
    seen = []
    with open(tmp_path / name, "a") as writer:
        for line in lines:
            for part in (line[:4], line[4:]):
                writer.write(part)
                writer.flush()
                seen += list(file.new())
        writer.write("9,9" if name.endswith(".csv") else '{"step": 9, "loss": 9}')
    assert [(logged.step, logged.metrics) for logged in seen] == [(step, {"loss": loss}) for step, loss in rows]
    assert [logged.step for logged in file.new(is_last=True)] == [9]


def test_pipes_and_lines_without_an_end_do_not_hold_plat_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert list(MetricsFile(tmp_path / "pipe.jsonl", "").new(is_last=True)) == []
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"{" * 5_000_000)
    file = MetricsFile(path, "")
    assert list(file.new()) == []
    with path.open("a") as writer:
        writer.write('{"a": 1}\n{"a": 2}\n')
    assert [logged.metrics for logged in file.new()] == [{"a": 2.0}]


def test_scalars_of_tensorboard_are_read_as_they_are_written(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    files, seen = EventFiles(tmp_path), []
    assert list(files.new()) == []
    with SummaryWriter(str(tmp_path / "logs")) as writer:
        for step in range(1, 4):
            writer.add_scalar("train/loss", 1 / step, step)
            writer.add_scalar("accuracy", step / 4, step)
            writer.add_text("note", "x", step)
            writer.flush()
            seen += list(files.new())
    assert list(files.new()) == []
    values = [{"train/loss": pytest.approx(1 / step)} for step in range(1, 4)]
    assert [(logged.step, logged.metrics) for logged in seen[::2]] == list(enumerate(values, start=1))
    assert [(logged.step, logged.metrics) for logged in seen[1::2]] == [(s, {"accuracy": s / 4}) for s in (1, 2, 3)]


def test_plat_log_writes_into_the_run_or_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PLAT_METRICS", raising=False)
    plat.log(1, loss=0.5)
    assert capsys.readouterr().out == '{"step": 1, "loss": 0.5}\n'
    monkeypatch.setenv("PLAT_METRICS", str(tmp_path / "metrics.jsonl"))
    plat.log(2, loss=0.25)
    (logged,) = MetricsFile(tmp_path / "metrics.jsonl", "").new()
    assert (logged.step, logged.metrics) == (2, {"loss": 0.25}) and capsys.readouterr().out == ""
