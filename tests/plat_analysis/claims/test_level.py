"""A measure against a bound: what was planted is found on either side, and a missing run decides nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from plat.errors import SpecError
from plat_analysis.claims.checks import level


def planted(make_experiment, make_frames, means, seeds=6, holes=(), builds=()):
    experiment = make_experiment(
        rows=list(means), tasks=["sokoban"], filters=["none"], seeds=range(seeds), builds=builds
    )
    frames = make_frames(experiment, holes={experiment.runs[index].id: "failed:oom" for index in holes})
    for run in experiment.runs:
        rows = (frames.metrics.run_id == run.id) & (frames.metrics.key == "heldout/final_success")
        frames.metrics.loc[rows, "value"] = means[run.axes["variant"]] + 0.01 * ((3 * run.axes["seed"]) % 5)
    return frames, experiment


def judge(planted, **options):
    return level(*planted, measure="final", rows="variant", **options)


def test_what_was_planted_is_found(make_experiment, make_frames):
    two = planted(make_experiment, make_frames, {"PPO": 0.6, "GRPO": 0.3})
    assert judge(two, bound=20).status == "shown"
    assert judge(two, bound=50).status in ("contradicted", "not_of_this_size")
    assert judge(two, bound=50, only=["PPO"]).status == "shown"
    assert judge(two, bound=70, side="below").status == "shown"
    assert judge(two, bound=62, only=["PPO"]).status == "open"


def test_a_row_has_students_interval(make_experiment, make_frames):
    verdict = judge(planted(make_experiment, make_frames, {"PPO": 0.6}), bound=50)
    values = 60 + np.array([(3 * seed) % 5 for seed in range(6)])
    low, high = stats.t.interval(0.95, 5, values.mean(), stats.sem(values))
    assert verdict.value["PPO"] == pytest.approx(values.mean())
    assert verdict.bounds["PPO"] == pytest.approx((low, high))


def test_values_that_builds_share_are_warned_of(make_experiment, make_frames):
    shared = planted(make_experiment, make_frames, {"PPO": 0.6}, builds=[0, 1])
    verdict = judge(shared, bound=50, builds="fixed")
    assert verdict.status == "shown" and "values of one seed agree across builds" in verdict.detail
    alone = planted(make_experiment, make_frames, {"PPO": 0.6})
    assert "agree" not in judge(alone, bound=50).detail


def test_holes_and_unknown_rows(make_experiment, make_frames):
    holed = planted(make_experiment, make_frames, {"PPO": 0.6}, holes=[2])
    assert judge(holed, bound=50).status == "not_enough_data"
    with pytest.raises(SpecError, match="there is no row 'PPQ'"):
        judge(holed, bound=50, only=["PPQ"])
