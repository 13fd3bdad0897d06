"""The report of a file without `report:`: which metrics, in which order, with how many digits."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from plat.spec.expansion.experiment import Experiment, load_experiment
from plat.store.mlflow.frames import Frames
from plat_analysis.data.results import Results
from plat_analysis.report.build import build_report, entries_of
from plat_analysis.report.report import Provenance

FILE = """
title: x
base: {trainer: script, script.command: 'run {lr} {seed}'}
matrix: {lr: [0.1, 0.2], seed: [0, 1]}
claims:
  - {id: a, says: A., check: mean_delta_positive, measure: {metric: z/value_loss}}
  - {id: b, says: B., check: mean_delta_positive, measure: zz_return}
"""


def results(tmp_path: Path, text: str = FILE, **last: float | list[float]) -> Results:
    """Results of runs that end with these values of their metrics."""
    return Results(*frames_of(tmp_path, text, **last))


def frames_of(tmp_path: Path, text: str, **last: float | list[float]) -> tuple[Frames, Experiment]:
    (tmp_path / "x.yaml").write_text(text)
    experiment = load_experiment(tmp_path / "x.yaml")
    rows = []
    for at, run in enumerate(experiment.runs):
        for name, value in last.items():
            rows.append((run.id, name, 7, value[at] if isinstance(value, list) else value))
    runs = [{"run_id": run.id, "name": run.name, "outcome": "finished", "attempt": 1} for run in experiment.runs]
    columns = ["run_id", "key", "step", "value"]
    metrics = pd.DataFrame(rows, columns=columns).sort_values(columns[:3]).reset_index(drop=True)
    tables = pd.DataFrame([], columns=["run_id", "name", "step", "data"])
    return Frames(pd.DataFrame(runs), metrics, tables), experiment


def test_metrics_of_claims_are_printed_and_others_folded_with_housekeeping_last(tmp_path):
    names = ["SPS", "a", "b", "c", "charts/learning_rate", "d", "e", "epoch", "time/fps", "z/value_loss", "zz_return"]
    effect, curves, table, folded = entries_of(results(tmp_path, **dict.fromkeys(names, 1.0)))
    assert list(effect["measures"]) == curves["metrics"] == ["z/value_loss", "zz_return"]
    assert "only" not in effect and "only" not in curves and table["only"] == folded["only"] == "folded"
    assert table["metrics"] == ["a", "b", "c", "d", "e", "SPS", "charts/learning_rate", "epoch", "time/fps"]
    assert folded["metrics"] == table["metrics"][:6]


def test_without_claims_two_metrics_are_printed(tmp_path):
    made = results(tmp_path, FILE.partition("claims")[0], a=1.0, timely_loss=2.0, lrs=1.0)
    effect, _, table, _ = entries_of(made)
    assert list(effect["measures"]) == ["a", "lrs"] and table["metrics"] == ["timely_loss"]


def test_two_axes_are_a_grid_of_each_metric_and_the_effects_are_for_the_page(tmp_path):
    text = FILE.replace("seed: [0, 1]", "wd: [0, 1], seed: [0, 1]").replace("{lr} ", "{lr} {wd} ")
    first, second, *rest = entries_of(results(tmp_path, text, **{"z/value_loss": 1.0, "zz_return": 2.0}))
    assert [entry["metrics"] for entry in (first, second)] == [["z/value_loss"], ["zz_return"]]
    assert all((entry["rows"], entry["columns"]) == (["lr"], ["wd"]) for entry in (first, second))
    assert "only" not in first and "only" not in second
    assert [entry["title"] for entry in rest if entry["builder"] == "measures_table"] == [
        "The effect of lr on z/value_loss, zz_return",
        "The effect of wd on z/value_loss, zz_return",
    ]
    assert [entry.get("only") for entry in rest] == ["page", "page", None]


def test_more_than_a_hundred_panels_are_not_drawn_and_said(tmp_path):
    text = (
        FILE.partition("claims")[0].replace("{lr} ", "{lr} {wd} ").replace("seed: [0, 1]", "wd: range(100), seed: [0]")
    )
    made = entries_of(results(tmp_path, text, m=1.0, a=1.0, b=1.0))
    assert [entry["builder"] for entry in made].count("learning_curves") == 2
    frames, experiment = frames_of(tmp_path, text.replace("range(100)", "range(101)"), m=1.0, a=1.0, b=1.0)
    assert "learning_curves" not in [entry["builder"] for entry in entries_of(Results(frames, experiment))]
    report = build_report(frames, experiment, Provenance())
    assert report.provenance and "they would have 101 panels" in report.provenance.notes[-1]


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
    effect, _ = entries_of(results(tmp_path, m=values))
    assert effect["measures"]["m"]["digits"] == digits
