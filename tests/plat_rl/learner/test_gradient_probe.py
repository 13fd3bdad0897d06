"""The gradient probe measures what an update would step with, and leaves no trace."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import pytest
import torch

from plat_rl.embedded.learner import Learner
from plat_rl.embedded.train import train
from plat_rl.metric_names import METRICS
from plat_rl.rl.filter.selection import StepPlan

PARTS = [np.arange(4), np.arange(4, 12)]
ONE_UPDATE = StepPlan(1)


@pytest.fixture(scope="module")
def batch(compose, play):
    return play(compose("task=sokoban"), groups=3, size=4)


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean"])
def test_the_norm_of_the_task_is_that_of_an_update_on_the_bucket_alone(compose, policy, batch, aggregation) -> None:
    options = ("algorithm=grpo", "algorithm.entropy_coef=0", f"algorithm.loss_agg={aggregation}")
    config = compose("task=sokoban", *options)
    norms = Learner(config, policy.shape, policy.flat, 0).gradient_norms(batch, PARTS)
    for part, norm in zip(PARTS, norms, strict=True):
        learner = Learner(config, policy.shape, policy.flat, 0)
        expected = learner.update(batch.select(part), ONE_UPDATE, np.random.default_rng(0), 1)["actor/grad_norm"]
        assert norm.keys() == {"task"} and norm["task"] == pytest.approx(expected, rel=1e-4) and expected > 0


def test_each_term_is_measured_by_itself_whatever_the_micro_batches(compose, policy, batch) -> None:
    config = compose("task=sokoban", "algorithm=ppo", "algorithm.kl_coef=0.1", "algorithm.entropy_coef=0.01")
    results = []
    for size in (12, 1):
        config.train = replace(config.train, micro_batch=size)
        learner = Learner(config, policy.shape, policy.flat, 0)
        assert learner.reference is not None
        learner.reference = learner.reference * 1.1
        results.append(learner.gradient_norms(batch, PARTS))
    for whole, cut in zip(*results, strict=True):
        assert whole.keys() == {"task", "entropy", "kl"} and min(whole.values()) > 0
        assert cut == pytest.approx(whole, rel=1e-4)
    # Twice the coefficient of a term is twice its norm, and no other's.
    config.algorithm = replace(config.algorithm, entropy_coef=0.02)
    learner = Learner(config, policy.shape, policy.flat, 0)
    learner.reference = learner.reference * 1.1
    doubled = learner.gradient_norms(batch, PARTS)[0]
    assert doubled["entropy"] == pytest.approx(2 * results[0][0]["entropy"], rel=1e-4)
    assert doubled["task"] == pytest.approx(results[0][0]["task"], rel=1e-4)


def test_nothing_is_stepped_or_left_behind(compose, policy, batch) -> None:
    learner = Learner(compose("task=sokoban", "algorithm=ppo"), policy.shape, policy.flat, 0)
    learner.update(batch, ONE_UPDATE, np.random.default_rng(0), 1)
    before, drawn = {name: value.clone() for name, value in learner.tensors().items()}, torch.get_rng_state()
    learner.gradient_norms(batch, PARTS)
    assert all(torch.equal(value, before[name]) for name, value in learner.tensors().items())
    assert torch.equal(torch.get_rng_state(), drawn) and learner.actor.parameter.grad is None


def test_a_run_that_is_probed_goes_as_it_goes_without(compose, memory_io) -> None:
    options = ("task=sokoban", "algorithm=grpo", "train.iterations=3", "early_stop.variance_window=0")
    probe = ("gradient.every=2", "gradient.prompts=6", "gradient.group_size=4", "gradient.buckets=3")
    plain, probed = memory_io(), memory_io()
    train(compose(*options), plain)
    train(compose(*options, *probe), probed)
    measured = {key for key in probed.history() if key[0].startswith("grad/")}
    assert {step for _, step in measured} == {1, 3}
    assert {name.split("/")[1] for name, _ in measured} == {"q1", "q2", "q3"}
    assert all(any(fnmatchcase(name, metric) for metric in METRICS) for name, _ in measured)
    assert all(probed.metrics["grad/q2/prompts", step] == 2 for step in (1, 3))
    assert {key: value for key, value in probed.history().items() if key not in measured} == plain.history()
    assert probed.final() == plain.final()
