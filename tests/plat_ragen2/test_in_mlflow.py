"""The paper's analyses are found with MLflow's own client: correlations, quartile means and a noise curve."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plat.store.home import Home
from plat.store.mlflow.frames import Store
from plat.store.mlflow.mlflow_client import mlflow_client
from plat_analysis.report.build import build_report
from plat_analysis.report.recorded_report import recorded

SETTINGS = [f"s{number}" for number in range(8)]
REPORT = [
    {
        "builder": "correlations",
        "rows": "variant",
        "conditions": "filter",
        "proxies": {"Entropy": "actor/entropy"},
    },
    {"builder": "measures_table", "rows": "variant", "conditions": "filter", "measures": {"final": "final"}},
    {
        "builder": "measure_lines",
        "rows": "variant",
        "columns": "model.base.seed",
        "baseline": "s0",
        "treatment": "s7",
        "measure": "final",
    },
]
CLAIMS = [{"id": "entropy", "check": "correlated", "rows": "variant", "conditions": "filter", "says": "It goes along.",
           "proxies": {"Entropy": "actor/entropy"}}]  # fmt: skip


@pytest.fixture
def logged(make_experiment, make_frames, tmp_path):
    """(frames, experiment, client, run) of a report in a real store."""
    experiment = make_experiment(
        rows=["PPO"], tasks=["sokoban"], filters=SETTINGS, seeds=range(5), builds=[0, 1], report=REPORT, claims=CLAIMS
    )
    frames, random, rows = make_frames(experiment), np.random.default_rng(7), []
    for run in experiment.runs:
        level = 0.04 * SETTINGS.index(run.axes["filter"]) + 0.02 * random.standard_normal()
        rows += [
            (run.id, "heldout/final_success", 30, 0.3 + level),
            (run.id, "actor/entropy", 30, level + 0.1 * random.standard_normal()),
        ]
    frames.metrics = pd.DataFrame(rows, columns=["run_id", "key", "step", "value"])
    frames.tables = frames.tables.iloc[:0]
    home = Home(tmp_path / "home")
    run = Store(home.store_uri(), home).log_report(experiment, {}, recorded(build_report(frames, experiment)))
    return frames, experiment, mlflow_client(home.store_uri()), run


def finals(frames, experiment, **axes):
    value = {(m.run_id, m.key): m.value for m in frames.metrics.itertuples()}
    chosen = [run for run in experiment.runs if axes.items() <= run.axes.items()]
    keys = ("actor/entropy", "heldout/final_success")
    return np.array([[value[run.id, key] for key in keys] for run in chosen])


def test_a_correlation_is_found_by_a_search_and_is_spearmans(logged):
    frames, experiment, client, run = logged
    key = "table4/correlations/PPO/between settings/Entropy/rho"
    folder = client.get_run(run).info.experiment_id
    assert [found.info.run_id for found in client.search_runs([folder], f"metrics.`{key}` > 0.5")] == [run]
    assert client.search_runs([folder], f"metrics.`{key}` < 0.5") == []
    rhos = [
        stats.spearmanr(*np.transpose(
            [finals(frames, experiment, filter=s, **{"model.base.seed": b}).mean(axis=0) for s in SETTINGS]
        )).statistic
        for b in (0, 1)
    ]  # fmt: skip
    metrics = client.get_run(run).data.metrics
    assert metrics[key] == pytest.approx(np.mean(rhos))
    assert metrics[f"{key}.low"] < metrics[key] < metrics[f"{key}.high"] and 0 < metrics[f"{key}.p"] < 0.1
    assert 0 < metrics["claim/entropy/p"] < 0.1


def test_means_and_changes_are_found_with_their_intervals(logged):
    frames, experiment, client, run = logged
    metrics = client.get_run(run).data.metrics
    for setting in SETTINGS:
        mean = 100 * finals(frames, experiment, filter=setting)[:, 1].mean()
        assert metrics[f"table4/measures/PPO/{setting}/final"] == pytest.approx(mean)
    first, last = (finals(frames, experiment, filter=s, **{"model.base.seed": 1})[:, 1] for s in ("s0", "s7"))
    gain = "table4/measure_lines/PPO/model.base.seed 1/gain/final"
    low, high = 100 * np.array(stats.t.interval(0.95, 4, (last - first).mean(), stats.sem(last - first)))
    assert metrics[gain] == pytest.approx(100 * (last - first).mean())
    assert (metrics[f"{gain}.low"], metrics[f"{gain}.high"]) == pytest.approx((low, high))
