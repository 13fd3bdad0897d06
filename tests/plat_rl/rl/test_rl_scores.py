"""Scores of prompts and statistics of a batch, against the standard library."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from plat_rl.rl.config import FilterConfig
from plat_rl.rl.statistics import prompt_scores, rollout_metrics, std_over_mean, variance

matrices = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(2, 6)),
    elements=st.integers(-100, 100).map(lambda tenth: tenth / 10),
)


@given(matrices, st.sampled_from([0, 1]))
def test_spread_is_the_standard_librarys(rewards, ddof):
    variance = statistics.variance if ddof else statistics.pvariance
    expected = [variance(row.tolist()) for row in rewards]
    for metric, wanted in (("reward_variance", expected), ("reward_std", [math.sqrt(v) for v in expected])):
        got = prompt_scores(rewards, config=FilterConfig(metric=metric, ddof=ddof))
        assert got.shape == (len(rewards),)
        np.testing.assert_allclose(got, wanted, atol=1e-12)


@given(matrices)
def test_the_other_metrics(rewards):
    entropies, lengths = rewards**2, np.abs(rewards) + 1

    def score(metric):
        return prompt_scores(rewards, entropies, lengths, FilterConfig(metric=metric))

    for p, row in enumerate(rewards.tolist()):
        assert score("reward")[p] == pytest.approx(sum(row) / len(row), abs=1e-12)
        assert score("reward_sum")[p] == pytest.approx(sum(row), abs=1e-12)
        assert score("length")[p] == pytest.approx(sum(abs(r) + 1 for r in row) / len(row))
        assert score("entropy")[p] == pytest.approx(sum(r * r for r in row) / len(row), abs=1e-9)
        assert score("entropy_variance")[p] == pytest.approx(statistics.variance([r * r for r in row]), abs=1e-9)
    np.testing.assert_allclose(score("entropy_std") ** 2, score("entropy_variance"), atol=1e-9)


@given(hnp.arrays(bool, st.tuples(st.integers(1, 6), st.integers(2, 6))))
def test_scores_of_success_are_zero_where_all_or_none_solved(solved):
    scores = {
        metric: prompt_scores(solved * 0.0, config=FilterConfig(metric=metric), successes=solved).tolist()
        for metric in ("success", "failure", "success_variance")
    }
    for p, row in enumerate(solved.tolist()):
        assert scores["success"][p] == pytest.approx(sum(row) / len(row))
        assert scores["failure"][p] == pytest.approx(1 - sum(row) / len(row))
        assert scores["success_variance"][p] == pytest.approx(statistics.variance(map(int, row)))
        assert (scores["success"][p] > 0, scores["failure"][p] > 0) == (any(row), not all(row))
        assert (scores["success_variance"][p] > 0) == (any(row) and not all(row))


@pytest.mark.parametrize("group", [3, 7, 12, 16])
def test_equal_returns_score_exactly_zero(group):
    assert variance([[0.1] * group], ddof=1).tolist() == [0.0]  # though the mean of 0.1s is not 0.1


def test_a_spread_over_too_few_is_undefined_and_silent(recwarn):
    assert np.isnan(prompt_scores([[1.0], [2.0]], config=FilterConfig(ddof=1))).all()
    assert prompt_scores([[1.0], [2.0]], config=FilterConfig(ddof=0)).tolist() == [0, 0]
    assert not recwarn.list


@pytest.mark.parametrize("metric", ["entropy", "entropy_variance", "length", "success"])
def test_a_missing_array_is_named(metric):
    with pytest.raises(ValueError, match=r"needs (entropies|lengths|successes)"):
        prompt_scores([[0.0, 1.0]], config=FilterConfig(metric=metric))
    with pytest.raises(ValueError, match="shape"):
        prompt_scores([0.0, 1.0])
    with pytest.raises(ValueError, match="unknown"):
        prompt_scores([[0.0, 1.0]], [[0.0]], [[0.0]], FilterConfig(metric="height"))


def test_rollout_metrics_by_hand():
    metrics = rollout_metrics([[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]])
    std = statistics.stdev([0, 0, 1, 1])
    assert metrics == {
        "rollout/return_mean": 0.5,
        "rollout/reward_std": pytest.approx(std / 3),
        "rollout/reward_var": pytest.approx(std**2 / 3),
        "rollout/rv_std_over_mean": pytest.approx(statistics.stdev([0, std, 0]) / (std / 3)),
        "rollout/zero_variance_prompts": 2.0,
    }


def test_table_8s_coefficient_of_variation():
    # Sokoban 14B of Table 8: mean 2.24, std 2.88; any eight numbers with these moments do
    unit = np.array([-1.0, 1, -1, 1, -1, 1, -1, 1])
    assert std_over_mean(2.24 + unit / unit.std(ddof=1) * 2.88) == pytest.approx(1.29, abs=0.005)


def test_undefined_ratios_are_nan():
    assert math.isnan(rollout_metrics([[1, 1], [0, 0]])["rollout/rv_std_over_mean"])
    assert math.isnan(rollout_metrics([[1.0], [0.0]])["rollout/reward_std"])
    assert math.isnan(std_over_mean([3.0]))
