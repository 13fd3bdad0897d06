"""The share of checkpoints in a quadrant: runs are the units, not checkpoints."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plat_analysis.figures.style import images
from plat_ragen2.figures.metric_plane import build_quadrants

X, Y, SIZE = "rollout/format_valid", "mi/trajectory/mi_est", "rollout/reward_var"


def test_the_share_is_a_mean_over_runs(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], filters=["none"], seeds=range(5))
    frames, random, shares, rows = make_frames(experiment), np.random.default_rng(3), [], []
    for run in experiment.runs:
        x, y = random.uniform(0.6, 1, 10), random.uniform(0, 0.6, 8)
        shares.append(100 * np.mean((x[:8] >= 0.8) & (y < 0.3)))
        rows += [
            (run.id, key, step, value) for key, line in ((X, x), (SIZE, x), (Y, y)) for step, value in enumerate(line)
        ]
    own = frames.metrics[~frames.metrics.key.isin([X, Y, SIZE])]
    frames.metrics = pd.concat([own, pd.DataFrame(rows, columns=["run_id", "key", "step", "value"])])
    (figure,) = build_quadrants(frames, experiment)
    low, high = np.clip(stats.t.interval(0.95, 4, np.mean(shares), stats.sem(shares)), 0, 100)
    assert figure.values["share/all"] == pytest.approx(np.mean(shares))
    assert [line["value"] for line in figure.estimates] == [figure.values["share/all"]]
    assert f"{np.mean(shares):.1f} % [{low:.1f}, {high:.1f}]" in figure.caption
    assert len(figure.points) == 40
    assert images(figure)["png"].startswith(b"\x89PNG")


def test_an_empty_store_draws_an_empty_figure(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    (figure,) = build_quadrants(
        make_frames(experiment, holes={run.id: "failed:oom" for run in experiment.runs}), experiment
    )
    assert figure.points == [] and "nothing is measured" in figure.caption
    assert images(figure)["png"].startswith(b"\x89PNG")
