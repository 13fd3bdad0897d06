"""An order in time: what was planted is found, a null is not, and a missing run decides nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from plat.errors import SpecError
from plat_ragen2.signals import falls_before

SIGNALS = ["mi/first_turn/retrieval_acc", "success"]
KEYS = {SIGNALS[0]: SIGNALS[0], "success": "val/success"}


def planted(make_experiment, make_frames, lag, noise=0.02, seeds=12, seed=0, holes=()):
    """Curves that fall from .8 to .2, success `lag` iterations after retrieval."""
    random = np.random.default_rng(seed)
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], filters=["none"], seeds=range(seeds))
    frames = make_frames(experiment, holes={experiment.runs[index].id: "failed:oom" for index in holes})
    steps, rows = np.arange(0, 60, 2), []
    for run in experiment.runs:
        middle = random.integers(20, 30)
        for signal, shift in ((SIGNALS[0], 0), ("success", lag)):
            values = np.where(steps < middle + shift, 0.8, 0.2) + noise * random.standard_normal(len(steps))
            rows += [(run.id, KEYS[signal], int(step), value) for step, value in zip(steps, values, strict=True)]
    own = frames.metrics[~frames.metrics.key.isin(KEYS.values())]
    frames.metrics = pd.concat([own, pd.DataFrame(rows, columns=["run_id", "key", "step", "value"])])
    return frames, experiment


def judge(frames, experiment, **options):
    return falls_before(frames, experiment, metrics=SIGNALS, **options)


def test_a_planted_order_is_found_in_either_direction(make_experiment, make_frames):
    first = judge(*planted(make_experiment, make_frames, lag=6))
    assert first.status == "shown" and "both fall in 12 of 12 runs" in first.detail
    assert "median lag 6" in first.detail and list(first.value.values()) == [1.0]
    assert judge(*planted(make_experiment, make_frames, lag=-6)).status in ("contradicted", "not_of_this_size")


def test_falls_at_one_time_are_no_order(make_experiment, make_frames):
    statuses = [judge(*planted(make_experiment, make_frames, 0, 0.3, seed=seed)).status for seed in range(8)]
    assert "shown" not in statuses and "open" in statuses
    together = judge(*planted(make_experiment, make_frames, 0))
    assert together.status == "not_enough_data" and "at different times in 0" in together.detail


def test_a_missing_run_is_not_enough_data(make_experiment, make_frames):
    verdict = judge(*planted(make_experiment, make_frames, 6, holes=[3]))
    assert verdict.status == "not_enough_data" and "11/12 runs" in verdict.detail


def test_a_small_fall_does_not_count(make_experiment, make_frames):
    verdict = judge(*planted(make_experiment, make_frames, 6), least=0.9)
    assert verdict.status == "not_enough_data" and "both fall in 0 of 12" in verdict.detail


def test_two_different_metrics_are_needed(make_experiment, make_frames):
    frames, experiment = planted(make_experiment, make_frames, 6)
    for metrics in (["success"], ["success", "success"]):
        with pytest.raises(SpecError, match="two different metrics"):
            falls_before(frames, experiment, metrics=metrics)
