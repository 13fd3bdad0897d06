"""plat's advantages and losses are verl's, to the bit, and so are their gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plat_rl.rl import algorithms
from plat_rl.rl.algorithms import Aggregation
from plat_rl.rl.config import AlgorithmConfig

seeds = st.integers(0, 10_000)
MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")


@pytest.fixture(scope="module")
def verl():
    from verl.trainer.ppo import core_algos

    return core_algos


def batch(seed, dtype=torch.float32):
    """Tensors [6, 9] of three prompts of a batch: a mask with gaps; one of its rows may be empty."""
    torch.manual_seed(seed)
    mask = (torch.rand(6, 9) < 0.7).to(dtype)
    mask[0, :2] = 1
    if seed % 3 == 0:
        mask[1] = 0
    return mask, {name: torch.randn(6, 9).to(dtype) for name in ("a", "b", "c", "d")}


def same(mine, theirs):
    assert mine.dtype == theirs.dtype and torch.equal(mine, theirs)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_gae(verl, seed):
    mask, x = batch(seed, torch.float64)
    gamma, lam = 0.5 + seed % 6 / 10, 0.9
    for mine, theirs in zip(
        algorithms.gae(x["a"] * mask, x["b"], mask, gamma, lam),
        verl.compute_gae_advantage_return(x["a"] * mask, x["b"], mask, gamma, lam),
        strict=True,
    ):
        same(mine, theirs)


@pytest.mark.parametrize("by_std", [True, False])
@given(seeds)
@settings(max_examples=60, deadline=None)
def test_group_relative(verl, by_std, seed):
    mask, x = batch(seed, torch.float64)
    index = np.random.default_rng(seed).integers(0, 4, 6)  # groups of one are among them
    config = AlgorithmConfig(advantage="grpo", norm_by_std=by_std)
    mine = algorithms.group_relative((x["a"] * mask).sum(1), index, config)[:, None] * mask
    same(mine, verl.compute_grpo_outcome_advantage(x["a"] * mask, mask, index, norm_adv_by_std_in_grpo=by_std)[0])


@pytest.mark.parametrize("mode", MODES)
@given(seeds)
@settings(max_examples=40, deadline=None)
def test_the_policy_loss_and_its_gradient(verl, mode, seed):
    from verl.workers.config import ActorConfig

    mask, x = batch(seed)
    limits = (0.2, 0.28, 3.0)
    config = ActorConfig(strategy="fsdp", rollout_n=1, use_dynamic_bsz=True, clip_ratio=0.2, clip_ratio_low=0.2,
                         clip_ratio_high=0.28, clip_ratio_c=3.0)  # fmt: skip
    config.global_batch_info.update(batch_num_tokens=40, global_batch_size=5, loss_scale_factor=9)
    logp, other = x["b"].requires_grad_(), x["b"].detach().clone().requires_grad_()
    terms, clipped = algorithms.clipped(x["a"], logp, x["c"], mask, limits)
    mine = algorithms.aggregate(terms, mask, mode, Aggregation(40, 5, 9))
    theirs, metrics = verl.get_policy_loss_fn("vanilla")(x["a"], other, x["c"], mask, mode, config)
    same(mine, theirs)
    assert clipped == {
        "clip_fraction": metrics["actor/pg_clipfrac"],
        "clip_fraction_lower": metrics["actor/pg_clipfrac_lower"],
        "ppo_kl": metrics["actor/ppo_kl"],
    }
    mine.backward()
    theirs.backward()
    same(logp.grad, other.grad)


@pytest.mark.parametrize("kind", ["kl", "abs", "mse", "low_var_kl"])
@given(seeds)
@settings(max_examples=30, deadline=None)
def test_the_estimates_of_the_divergence(verl, kind, seed):
    _, x = batch(seed)
    same(algorithms.kl_estimate(30 * x["a"], x["b"], kind), verl.kl_penalty(30 * x["a"], x["b"], kind))


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_the_value_loss(verl, seed):
    mask, x = batch(seed)
    config = replace(AlgorithmConfig(), value_clip=0.3)
    errors, share = algorithms.clipped_errors(x["a"], x["b"], x["c"], mask, config.value_clip)
    theirs, clipped = verl.compute_value_loss(x["a"], x["b"], x["c"], mask, 0.3, "token-mean", batch_num_tokens=50)
    same(0.5 * algorithms.aggregate(errors, mask, "token-mean", Aggregation(50)), theirs)
    assert share == float(clipped)


@pytest.mark.parametrize("mode", MODES)
@given(seeds)
@settings(max_examples=30, deadline=None)
def test_aggregation_of_whole_batches(verl, mode, seed):
    mask, x = batch(seed)
    factor = {"loss_scale_factor": 9}
    same(algorithms.aggregate(x["a"], mask, mode, Aggregation(**factor)), verl.agg_loss(x["a"], mask, mode, **factor))
