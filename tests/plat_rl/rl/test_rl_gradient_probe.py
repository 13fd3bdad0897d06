"""Buckets of prompts by the spread of their returns, and what the gradient probe reports of each."""

from __future__ import annotations

from itertools import pairwise
from statistics import stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat_rl.rl.config import AlgorithmConfig, GradientConfig
from plat_rl.rl.gradient_probe import gradient_metrics, is_measured, quantile_buckets, terms_of


@given(st.lists(st.floats(0, 10), min_size=1, max_size=60), st.integers(1, 8))
def test_buckets_hold_every_prompt_once_in_rising_order_of_spread(spreads: list[float], count: int) -> None:
    buckets = quantile_buckets(np.array(spreads), count)
    assert len(buckets) == count and sorted(np.concatenate(buckets).tolist()) == list(range(len(spreads)))
    sizes = [len(bucket) for bucket in buckets]
    assert max(sizes) - min(sizes) <= 1
    filled = [[spreads[number] for number in bucket] for bucket in buckets if len(bucket)]
    assert all(max(low) <= min(high) for low, high in pairwise(filled))


def test_the_papers_run_is_probed_at_steps_1_51_and_101() -> None:
    config = GradientConfig(every=50)
    assert [step for step in range(1, 102) if is_measured(step, config, 400)] == [1, 51, 101]
    assert not any(is_measured(step, GradientConfig(), 400) for step in range(102))


@given(st.integers(1, 60), st.integers(1, 12))
def test_measurements_spread_evenly_over_the_run(iterations: int, times: int) -> None:
    config = GradientConfig(times=times)
    measured = [step for step in range(1, iterations + 1) if is_measured(step, config, iterations)]
    assert measured[0] == 1 and (times == 1 or measured[-1] == iterations)
    assert len(measured) == min(times, iterations)
    if times <= iterations:
        assert np.abs(np.array(measured) - np.linspace(1, iterations, times)).max() <= 0.5


def test_three_times_are_first_middle_and_last() -> None:
    assert [step for step in range(1, 31) if is_measured(step, GradientConfig(times=3), 30)] == [1, 16, 30]
    assert [step for step in range(1, 3) if is_measured(step, GradientConfig(times=3), 2)] == [1, 2]


def test_what_is_reported_of_a_bucket() -> None:
    returns = np.array([[0.0, 4.0], [1.0, 1.0], [0.0, 1.0], [2.0, 0.0]])
    asked = []

    def norms(parts):
        asked.extend(part.tolist() for part in parts)
        return [{"task": 10.0 * number} for number in range(len(parts))]

    metrics = gradient_metrics(returns, GradientConfig(every=1, buckets=2), norms)
    assert asked == [[2, 3, 4, 5], [0, 1, 6, 7]], "trajectories of the prompts 1 and 2, then 0 and 3"
    assert metrics["grad/q1/task"] == 0 and metrics["grad/q2/task"] == 10
    assert metrics["grad/q1/prompts"] == 2 and metrics["grad/q1/reward_std_min"] == 0
    assert metrics["grad/q2/reward_std_max"] == pytest.approx(stdev([0, 4]))
    assert metrics["grad/q2/reward_std_mean"] == pytest.approx((stdev([0, 4]) + stdev([0, 2])) / 2)
    assert len(metrics) == 2 * 5


def test_a_term_whose_coefficient_is_zero_is_not_measured() -> None:
    assert terms_of(AlgorithmConfig(entropy_coef=0.0)) == ("task",)
    assert terms_of(AlgorithmConfig(kl_coef=0.1)) == ("task", "entropy", "kl")
