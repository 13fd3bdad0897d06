"""How returns are spread over prompts, against the statistics module and a regression on success."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat_rl.rl.statistics import prompt_metrics


@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(2, 8))
def test_against_a_slow_version(seed: int, prompts: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    success = rng.random((prompts, size)) < rng.random((prompts, 1))
    rewards = success + rng.integers(0, 3, (prompts, size)) * 0.25
    metrics = {name.removeprefix("rollout/"): value for name, value in prompt_metrics(rewards, success).items()}
    variances = [statistics.variance(row) for row in rewards.tolist()]
    assert metrics["reward_var_min"] == pytest.approx(min(variances))
    assert metrics["reward_var_max"] == pytest.approx(max(variances))
    assert metrics["reward_var_median"] == pytest.approx(statistics.median(variances))
    if prompts > 1:
        quartiles = statistics.quantiles(variances, n=4, method="inclusive")
        assert [metrics["reward_var_q25"], metrics["reward_var_q75"]] == pytest.approx([quartiles[0], quartiles[2]])
    counts = [5 * int(row.sum()) for row in success]  # exact, in place of shares
    assert metrics["easy_prompts"] == sum(count >= 4 * size for count in counts)
    assert metrics["hard_prompts"] == sum(count <= size for count in counts)
    assert metrics["easy_prompts"] + metrics["mixed_prompts"] + metrics["hard_prompts"] == prompts
    left = []
    for row, won in zip(rewards, success, strict=True):  # what a least-squares line on success does not explain
        design = np.stack([np.ones(size), won], axis=1)
        fitted = design @ np.linalg.lstsq(design, row, rcond=None)[0]
        left.append(((row - fitted) ** 2).sum() / (size - 1))
    assert metrics["reward_var_within_success"] == pytest.approx(statistics.fmean(left), abs=1e-12)


def test_nothing_is_left_of_binary_rewards_whatever_their_values() -> None:
    success = np.random.default_rng(0).random((20, 16)) < 0.4
    assert prompt_metrics(np.where(success, 10.9, -0.1), success)["rollout/reward_var_within_success"] == 0.0
