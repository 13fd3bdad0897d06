"""A home with the runs of a script under a file with claims, whose values a test can compute again."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from fresh_plat import fresh_plat

SEEDS = 8
SCRIPT = """
import json, random, sys
model, lr, seed = sys.argv[1:4]
effect = {"small": 1.0, "large": 0.2}[model] * (lr == "0.1")
base, noise = random.Random(f"{model} {seed}").gauss(0, 1), random.Random(f"{model} {lr} {seed}").gauss(0, 0.3)
for step in (1, 2):
    print(json.dumps({"step": step, "score": base + noise + effect}))
"""
FILE = """
title: Does a larger rate help?
question: Does it with both models?
evidence: real scale, 8 seeds
base:
  trainer: script
  script.command: "python COMMAND {model} {lr} {seed} --api-key abcdefgh12345"
  script.metric: score
matrix: {model: [small, large], lr: [0.01, 0.1], seed: range(8)}
claims:
  - {id: helps, says: A larger rate ends higher., check: mean_delta_positive, rows: model, pair: lr, baseline: 0.01,
     treatment: 0.1, measure: {metric: score}, smallest: 0.5, expect: [shown, shown in part]}
  - {id: high, says: The score is above zero., check: level, rows: [model, lr], measure: {metric: score}}
"""


def score(model: str, lr: str, seed: int) -> float:
    """What a run of SCRIPT logs."""
    effect = {"small": 1.0, "large": 0.2}[model] * (lr == "0.1")
    base, noise = random.Random(f"{model} {seed}").gauss(0, 1), random.Random(f"{model} {lr} {seed}").gauss(0, 0.3)
    return base + noise + effect


@pytest.fixture(scope="session")
def claimed_store(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Path:
    """A folder with mine.yaml, the script that it names by an absolute path, and the home of its runs; only read it."""
    folder = tmp_path_factory.mktemp("claimed")
    (folder / "home").mkdir()
    shutil.copy(empty_store, folder / "home" / "mlflow.db")
    (folder / "t.py").write_text(SCRIPT)
    (folder / "mine.yaml").write_text(FILE.replace("COMMAND", str(folder / "t.py")))
    environment = {key: value for key, value in os.environ.items() if key not in ("PLAT_HOME", "MLFLOW_TRACKING_URI")}
    done = fresh_plat("sweep", "mine.yaml", "--home", "home", cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder
