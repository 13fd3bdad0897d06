"""A project with an empty store, and the numbers that an import has brought into it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plat

NUMBERS = ("value", "low", "high")
Curves = dict[tuple[object, ...], dict[str, list[tuple[int, float]]]]  # labels of a run -> metric -> (step, number)


@pytest.fixture
def stored(project: Path) -> Callable[..., Curves]:
    """Return what the store has of the runs of a file, by these axes."""

    def read(file: str, *axes: str) -> Curves:
        labels = {run.id: tuple(run.axes[axis] for axis in axes) for run in plat.status(file)}
        curves: Curves = {}
        for row in plat.load(file).metrics.sort_values(["run_id", "key", "step"]).itertuples():
            curves.setdefault(labels[row.run_id], {}).setdefault(row.key, []).append((row.step, row.value))
        return curves

    return read


@pytest.fixture
def means(project: Path) -> Callable[..., dict[tuple[str, str], tuple[float, ...]]]:
    """Return (row, metric) -> (mean, low, high) of the default report of a file: of its grid, or of its only axis."""

    def read(file: str) -> dict[tuple[str, str], tuple[float, ...]]:
        folder = project / "plat-home" / "reports" / file
        found = {}
        for path in sorted(folder.glob("metrics*.csv")) or folder.glob("effect_of_*.csv"):
            with open(path, encoding="utf-8") as lines:
                for row in csv.DictReader(lines):
                    name = " · ".join(filter(None, [row["row"], row.get("column") or row.get("condition")]))
                    if not row.get("against"):
                        metric = row.get("metric") or row["measure"]
                        found[name, metric] = tuple(float(row[key] or "nan") for key in NUMBERS)
        return found

    return read


# In a process of its own, because wandb keeps the folder of its first run and a service for all runs of a process.
OFFLINE = """
import json, sys, wandb
settings = wandb.Settings(silent=True, console="off", x_disable_stats=True, x_disable_meta=True)
for config, rows in json.load(sys.stdin):
    with wandb.init(mode="offline", dir=".", config=config, settings=settings) as run:
        for row in rows:
            run.log(row)
"""


@pytest.fixture
def offline(project: Path) -> Callable[[list[tuple[dict[str, Any], list[dict[str, Any]]]]], None]:
    """Let wandb itself write offline runs, each a config and the rows that it logs, below `wandb`."""
    pytest.importorskip("wandb")

    def write(runs: list[tuple[dict[str, Any], list[dict[str, Any]]]]) -> None:
        # without the service and the folder of another test's wandb in this process
        clean = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
        command = [sys.executable, "-c", OFFLINE]
        subprocess.run(command, input=json.dumps(runs), text=True, check=True, capture_output=True, env=clean)

    return write
