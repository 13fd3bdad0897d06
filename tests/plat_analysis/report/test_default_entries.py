"""The report of a file without `report:`: which metrics, in which order, with how many digits."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from plat.spec.expansion.experiment import load_experiment
from plat.store.mlflow.frames import Frames
from plat_analysis.data.results import Results
from plat_analysis.report.default_entries import entries_of

FILE = """
title: x
base: {trainer: script, script.command: 'run {lr} {seed}'}
matrix: {lr: [0.1, 0.2], seed: [0, 1]}
claims:
  - {id: a, says: A., check: mean_delta_positive, measure: {metric: z/value_loss}}
  - {id: b, says: B., check: mean_delta_positive, measure: zz_return}
"""


def entries(tmp_path: Path, **last: float | list[float]) -> list[dict]:
    """The entries of four runs that end with these values of their metrics."""
    (tmp_path / "x.yaml").write_text(FILE)
    experiment = load_experiment(tmp_path / "x.yaml")
    rows = []
    for at, run in enumerate(experiment.runs):
        for name, value in last.items():
            rows.append((run.id, name, 7, value[at] if isinstance(value, list) else value))
    runs = [{"run_id": run.id, "name": run.name, "outcome": "finished", "attempt": 1} for run in experiment.runs]
    columns = ["run_id", "key", "step", "value"]
    metrics = pd.DataFrame(rows, columns=columns).sort_values(columns[:3]).reset_index(drop=True)
    tables = pd.DataFrame([], columns=["run_id", "name", "step", "data"])
    return entries_of(Results(Frames(pd.DataFrame(runs), metrics, tables), experiment))


def test_metrics_of_claims_come_first_and_housekeeping_last(tmp_path):
    names = ["SPS", "a", "b", "c", "charts/learning_rate", "d", "e", "epoch", "time/fps", "z/value_loss", "zz_return"]
    table, curves, effect = entries(tmp_path, **dict.fromkeys(names, 1.0))
    assert table["metrics"] == curves["metrics"] == ["z/value_loss", "zz_return", "a", "b", "c", "d"]
    assert list(effect["measures"]) == table["metrics"]
    assert table["others"] == ["SPS", "charts/learning_rate", "e", "epoch", "time/fps"]


def test_nothing_is_left_out_of_a_few_metrics(tmp_path):
    (table, *_) = entries(tmp_path, a=1.0, timely_loss=2.0, lrs=1.0)
    assert table["metrics"] == ["a", "lrs", "timely_loss"] and "others" not in table


@pytest.mark.parametrize(
    ("values", "digits"),
    [
        (0.000412, 7),
        (0.5, 4),
        (1.0, 3),
        (97.25, 2),
        (2985.8, 0),
        ([12345.6, 12346.2, 12345.9, 12346.0], 2),  # the spread of .6 would not be seen
        ([0.3, 0.1 + 0.2, 0.3, 0.3], 4),  # another order of a sum
        ([1e-300, 2e-300, 1e-300, 1e-300], 10),
        (0.0, 3),
        ([float("inf"), 2.0, 2.0, 2.0], 3),
    ],
)
def test_numbers_have_four_digits_of_their_size_and_two_of_their_spread(tmp_path, values, digits):
    table, _, effect = entries(tmp_path, m=values)
    assert table["digits"] == {"m": digits} and effect["measures"]["m"]["digits"] == digits
