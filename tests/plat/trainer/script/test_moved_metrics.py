"""A logger that counts its folders up, such as `version_0`, writes into another one in the next attempt."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from plat.app.first_file.making import make_first_file
from plat.trainer.script.advice import moved, with_any_number
from plat.trainer.script.config import ScriptConfig


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("csv/version_0/metrics.csv", "csv/version_*/metrics.csv"),
        ("logs/ppo/CartPole-v1_12/0.monitor.csv", "logs/ppo/CartPole-v1_*/0.monitor.csv"),
        ("outputs/2026-11-27/11-20-00/m.csv", "outputs/*/*/m.csv"),
        ("run-20261127_112000/m.csv", "run-*/m.csv"),
        ("ppo2/resnet-v50/m.csv", "ppo2/resnet-v50/m.csv"),
    ],
)
def test_counted_folders_become_a_pattern(path: str, pattern: str) -> None:
    assert with_any_number(Path(path)) == pattern


@pytest.mark.parametrize(
    ("setting", "is_moved"),
    [("csv/version_0/m.csv", True), ("csv/version_*/m.csv", False), ("other.csv", False), ("text", False)],
)
def test_a_resumed_script_that_logs_elsewhere_is_named(tmp_path: Path, setting: str, is_moved: bool) -> None:
    since = time.time() - 100
    for number in (0, 1):
        path = tmp_path / f"csv/version_{number}/m.csv"
        path.parent.mkdir(parents=True)
        path.write_text("step,loss\n1,1\n")
        if not number:
            os.utime(path, (since - 100, since - 100))
    error = moved(ScriptConfig(metrics=setting), tmp_path, since)
    assert (error is not None) == is_moved
    if error is not None:
        assert error.what == "the resumed script logged into csv/version_1/m.csv, and nothing into csv/version_0/m.csv"
        assert error.fix == "script.metrics: csv/version_*/m.csv"


def test_a_trial_writes_the_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "import os\nos.makedirs('csv/version_0')\n"
        "open('csv/version_0/m.csv', 'w').write('step,loss\\n1,0.5\\n2,0.25\\n')\n"
    )
    made = make_first_file("train.py", seconds=20)
    assert made.trial is not None and made.trial.metrics == "csv/version_*/m.csv"
