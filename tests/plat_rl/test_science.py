"""Learning is real, on all four tasks, with PPO and GRPO. Trains for minutes, so it is left out by default:

pytest -m science tests/plat/trainer                       train into a folder of pytest's
PLAT_HOME=DIR pytest -m science tests/plat/trainer         go on from what is done in DIR
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[3] / "experiments" / "learning.yaml"
LEAST = 5.0  # points


@pytest.fixture(scope="module")
def gains(tmp_path_factory):
    """Held-out gains over the base model in points, as the report has them: (algorithm, task) -> record."""
    from plat.spec.expansion.experiment import load_experiment
    from plat.store.home import Home
    from plat.store.mlflow.frames import Store
    from plat_analysis.tables.peak_success import build

    folder = Path(os.environ.get("PLAT_HOME") or tmp_path_factory.mktemp("learning"))
    command = [sys.executable, "-m", "plat", "sweep", str(FILE), "--home", str(folder)]
    subprocess.run(command, check=True, timeout=3600)
    experiment, home = load_experiment(FILE), Home(folder)
    arguments = next(dict(item) for item in experiment.report if item["builder"] == "peak_success_table")
    del arguments["builder"]
    tables = build(Store(home.store_uri(), home).load(experiment), experiment, **arguments)
    records = [item for table in tables for item in table.records if item.get("quantity") == "learned"]
    return {(item["row"], item["column"]): item for item in records}


@pytest.mark.science
@pytest.mark.parametrize("task", ["sokoban", "frozenlake", "metamathqa", "countdown"])
@pytest.mark.parametrize("algorithm", ["ppo", "grpo"])
def test_the_peak_checkpoint_beats_the_base_model_on_held_out_instances(gains, algorithm, task):
    """Paired by instance; the lower end of the 95 % interval is above five points."""
    actual = gains[algorithm, task]
    print(
        f"{algorithm} on {task}: {actual['value']:+.1f} points, 95 % from {actual['low']:+.1f} to {actual['high']:+.1f}"
    )
    assert actual["low"] > LEAST, actual
