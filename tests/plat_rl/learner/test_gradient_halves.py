"""Two halves of a bucket agree where rewards say something, and as little as nothing under the null."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from plat.errors import SpecError
from plat_rl.embedded.batch import is_last_turn
from plat_rl.embedded.learner import Learner
from plat_rl.embedded.probe import halves_metrics, random_halves, with_returns
from plat_rl.rl.filter.selection import StepPlan

ONE_UPDATE = StepPlan(1)
GRPO = ("task=sokoban", "algorithm=grpo", "algorithm.entropy_coef=0")


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("size", [4, 5, 16])
def test_halves_are_disjoint_and_have_as_many_of_every_prompt(size):
    one, other = random_halves(6, size, rng())
    assert not set(one) & set(other) and len({*one, *other}) == 6 * 2 * (size // 2)
    for half in (one, other):
        assert (np.diff(half) > 0).all()
        assert set(Counter((half // size).tolist()).values()) == {size // 2}
    drawn = [random_halves(1, 4, rng(seed))[0].tolist() for seed in range(60)]
    assert {tuple(half) for half in drawn} == {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}


def test_returns_stand_at_the_last_turn(compose, play):
    batch = play(compose("task=sokoban"), groups=3, size=4)
    wanted = np.arange(12.0)
    changed = with_returns(batch, wanted)
    assert np.array_equal(changed.returns, wanted)
    last = {number: row for row, number in enumerate(batch.trajectory_of_row)}
    assert sorted(last.values()) == np.flatnonzero(is_last_turn(batch)).tolist()


def gradient_of(config, policy, batch):
    """The gradient that one update on this batch alone clips and steps with, from a fresh learner."""
    learner, seen = Learner(config, policy.shape, policy.flat, 0), []
    learner.actor.step = lambda scale: seen.append(learner.actor.parameter.grad.clone()) or 0.0  # type: ignore[method-assign]
    learner.update(batch, ONE_UPDATE, rng(), 1)
    return seen[0]


def test_the_inner_product_is_that_of_two_updates_on_the_halves(compose, policy, play):
    config = compose(*GRPO)
    batch = play(config, groups=4, size=6)
    batch = with_returns(batch, rng(1).integers(0, 3, 24).astype(float))
    learner = Learner(config, policy.shape, policy.flat, 0)
    metrics = halves_metrics(learner, batch, 1, 6, rng(7))
    halves = [gradient_of(config, policy, batch.select(half)) for half in random_halves(4, 6, rng(7))]
    assert metrics["grad/q1/halves_inner"] == pytest.approx(float(torch.dot(*halves)), rel=1e-4)
    cosine = torch.nn.functional.cosine_similarity(*halves, dim=0)
    assert metrics["grad/q1/halves_cosine"] == pytest.approx(float(cosine), rel=1e-4)
    assert metrics["grad/q1/null_task"] > 0


@pytest.mark.long
def test_rewards_of_an_act_agree_and_rewards_of_chance_do_not(compose, policy, play):
    """Planted: returns that are the length of a response have a direction; permuted ones have none, on average."""
    config = compose(*GRPO)
    batch = play(config, groups=24, size=16)
    lengths = batch.per_trajectory(batch.response_length.astype(float))
    told = with_returns(batch, lengths)
    results = [
        halves_metrics(Learner(config, policy.shape, policy.flat, 0), told, 1, 16, rng(seed)) for seed in range(12)
    ]
    cosines = {name: np.array([result[f"grad/q1/{name}_cosine"] for result in results]) for name in ("halves", "null")}
    assert cosines["halves"].min() > 0.25
    error = cosines["null"].std(ddof=1) / np.sqrt(12)
    assert abs(cosines["null"].mean()) < 3 * error + 0.02, cosines["null"]


def test_a_bucket_without_spread_has_no_direction(compose, policy, play):
    batch = with_returns(play(compose(*GRPO), groups=2, size=4), np.full(8, 10.3))
    metrics = halves_metrics(Learner(compose(*GRPO), policy.shape, policy.flat, 0), batch, 2, 4, rng())
    assert not [name for name in metrics if "cosine" in name]
    assert all(abs(value) < 1e-8 for value in metrics.values()) and len(metrics) == 2 * 3


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_one_norm_of_the_regularisers_is_that_of_an_update_without_rewards(compose, policy, play, kl):
    config = compose("task=sokoban", "algorithm=grpo", "algorithm.entropy_coef=0.01", f"algorithm.kl_coef={kl}")
    batch = play(config, groups=3, size=4)
    learner = Learner(config, policy.shape, policy.flat, 0)
    (norms,) = learner.gradient_norms(batch, [np.arange(12)], together=True)
    silent = gradient_of(config, policy, with_returns(batch, np.zeros(12)))
    assert norms["regulariser"] == pytest.approx(float(silent.norm()), rel=1e-4)
    assert "regulariser" not in learner.gradient_norms(batch, [np.arange(12)])[0]


def test_halves_of_three_trajectories_are_refused(compose):
    with pytest.raises(SpecError, match="halves of 3 trajectories"):
        compose("gradient.times=1", "gradient.halves=true", "gradient.group_size=3")
