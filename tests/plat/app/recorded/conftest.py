"""A project with an empty store, and the numbers that an import has brought into it."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import plat

NUMBERS = ("value", "low", "high")
Curves = dict[tuple[object, ...], dict[str, list[tuple[int, float]]]]  # labels of a run -> metric -> (step, number)


@pytest.fixture
def project(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch, nothing_named: None) -> Path:
    """The current folder, with a home that has a store."""
    (tmp_path / "plat-home").mkdir()
    shutil.copy(empty_store, tmp_path / "plat-home" / "mlflow.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
    """Return (row, metric) -> (mean, low, high) of the default report of a file."""

    def read(file: str) -> dict[tuple[str, str], tuple[float, ...]]:
        with open(project / "plat-home" / "reports" / file / "metrics.csv", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        return {(row["row"], row["metric"]): tuple(float(row[k] or "nan") for k in NUMBERS) for row in rows}

    return read
