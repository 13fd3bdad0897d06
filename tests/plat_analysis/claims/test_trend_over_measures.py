"""A trend over measures of the same runs: what was planted is found, and what has no trend is refused beforehand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plat.errors import SpecError
from plat_analysis.claims.trend import trend_over_measures
from plat_analysis.plugins.entry_checking import check_entries

MEASURES = {f"Q{k}": f"grad/q{k}/task" for k in (1, 2, 3, 4)}


@pytest.fixture
def planted(make_experiment, make_frames):
    """(experiment, frames, values) with a slope along the buckets in each row, and noise."""

    def make(slopes, seeds=range(5), builds=(0, 1), absent=()):
        experiment = make_experiment(rows=list(slopes), tasks=["sokoban"], filters=["none"], seeds=seeds, builds=builds)
        frames, rng, rows, values = make_frames(experiment), np.random.default_rng(1), [], {}
        for index, run in enumerate(experiment.runs):
            noise = rng.standard_normal(4)
            levels = 10 + 5 * run.axes["model.base.seed"] + slopes[run.axes["variant"]] * np.arange(4) + noise
            values.setdefault(run.axes["variant"], []).append(levels)
            rows += [(run.id, f"grad/q{k}/task", 1, levels[k - 1]) for k in (1, 2, 3, 4) if (index, k) not in absent]
        frames = replace(frames, metrics=pd.DataFrame(rows, columns=["run_id", "key", "step", "value"]))
        return experiment, frames, values

    return make


def judge(planted, **options):
    experiment, frames, _ = planted
    return trend_over_measures(frames, experiment, **{"measures": MEASURES, "rows": "variant"} | options)


def test_what_was_planted_is_found(planted):
    assert judge(planted({"PPO": 2, "GRPO": 2}), direction="rising").status == "shown"
    assert judge(planted({"PPO": 2, "GRPO": -2}), direction="rising").status in ("contradicted", "not_of_this_size")
    assert judge(planted({"PPO": -2, "GRPO": 0})).status == "shown_in_part"
    assert judge(planted({"PPO": 0})).status == "open"
    assert judge(planted({"PPO": 2, "GRPO": -2}), direction="rising", only=["PPO"]).status == "shown"


def test_the_slope_is_that_of_least_squares(planted):
    found = planted({"PPO": 1})
    expected = np.mean([stats.linregress(range(4), levels).slope for levels in found[2]["PPO"]])
    assert judge(found, direction="rising").value["PPO"] == pytest.approx(expected)


def test_a_run_without_a_bucket_or_too_few_seeds_are_not_enough_data(planted):
    verdict = judge(planted({"PPO": 2}, absent={(3, 2)}), direction="rising")
    assert verdict.status == "not_enough_data" and "9/10 blocks" in verdict.detail
    assert judge(planted({"PPO": 2}, seeds=range(4), builds=[0])).status == "not_enough_data"


def test_few_null_runs_have_a_trend(planted):
    """At most 2.5 % of either sign are promised: of 200 nulls 10 would be 5 %."""
    rng = np.random.default_rng(5)
    experiment, frames, _ = planted({"PPO": 0})
    statuses = []
    for _ in range(200):
        frames.metrics["value"] = rng.standard_normal(len(frames.metrics))
        statuses.append(judge((experiment, replace(frames), None)).status)
    assert statuses.count("shown") <= 12 and statuses.count("contradicted") <= 12


@pytest.mark.parametrize(
    "measures, what",
    [
        ("{a: success, b: val/return}", "needs 3 named measures in order, and 2 are named"),
        ("{a: success, b: val/return, c: val/turns}", "some are in percent"),
        ("{a: val/turns, b: val/return, c: grad/r1/task}", "no run logs the metric"),
    ],
)
def test_what_has_no_trend_is_refused_beforehand(tmp_path, measures, what):
    from plat.spec.expansion.experiment import load_experiment

    path = tmp_path / "x.yaml"
    path.write_text(
        "title: t\nbase: {task: sokoban}\nmatrix: {seed: range(5)}\n"
        f"claims: [{{id: a, says: b, check: trend_over_measures, measures: {measures}}}]\n"
    )
    with pytest.raises(SpecError, match=what):
        check_entries(load_experiment(path))
