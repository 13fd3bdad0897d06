"""What must not change one iteration's updates and what must, failures, and the state after a resume."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from plat.errors import RunError
from plat_rl.rl.config import FilterConfig
from plat_rl.rl.filter.selection import StepPlan, step_plan

PLAN = step_plan(6, 6, FilterConfig(), 2)
ALGORITHMS = ("ppo", "dapo", "grpo", "drgrpo")


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("size", [1, 2])
def test_micro_batches_change_only_rounding(config, policy, batch, name, size, update, moved):
    whole = config(f"algorithm={name}", "algorithm.kl_coef=0.1")
    parts = config(f"algorithm={name}", "algorithm.kl_coef=0.1", f"train.micro_batch={size}")
    (single, metrics), (other, again) = update(whole, policy, batch), update(parts, policy, batch)
    assert float((moved(single, policy) - moved(other, policy)).abs().max()) < 0.01 * whole.train.lr
    assert metrics.keys() == again.keys()
    for key, value in metrics.items():
        assert again[key] == pytest.approx(value, rel=1e-3, abs=1e-6), key


def test_rows_of_other_lengths_do_not_matter(config, policy, batch, monkeypatch, update, moved):
    """Responses computed in groups of one length, or all padded to the longest."""
    from plat_rl.embedded.transformer import flat_pass

    config = config("algorithm=ppo")
    single, _ = update(config, policy, batch)
    monkeypatch.setattr(flat_pass, "length_groups", lambda lengths, worth: [np.arange(len(lengths))])
    other, _ = update(config, policy, batch)
    assert float((moved(single, policy) - moved(other, policy)).abs().max()) < 0.01 * config.train.lr


def test_only_kept_trajectories_teach(config, policy, batch, update):
    config = config("algorithm=grpo")
    kept = batch.select(np.arange(3))
    strange = replace(batch, rewards=np.where(batch.trajectory_of_row < 3, batch.rewards, 99.0))
    single, _ = update(config, policy, kept)
    other, _ = update(config, policy, strange.select(np.arange(3)))
    assert torch.equal(single.actor.parameter, other.actor.parameter)
    everyone, _ = update(config, policy, strange)
    assert not torch.equal(single.actor.parameter, everyone.actor.parameter)


SINGLE_UPDATE = StepPlan(1)


def test_a_loss_scale_scales_the_gradient_and_adam_hides_it(config, policy, batch, update, moved):
    config = config("algorithm=ppo", "train.max_grad_norm=1e6")
    (single, metrics), (other, scaled) = (
        update(config, policy, batch, replace(SINGLE_UPDATE, loss_scale=scale)) for scale in (1.0, 0.25)
    )
    for part in ("actor", "critic"):
        assert scaled[f"{part}/grad_norm"] == pytest.approx(metrics[f"{part}/grad_norm"] / 4, rel=1e-6)
    assert float((moved(single, policy) - moved(other, policy)).abs().median()) < 1e-3 * config.train.lr


def test_an_advantage_scale_weakens_the_task_only(config, policy, batch, update):
    config = config("algorithm=grpo", "algorithm.entropy_coef=0", "train.max_grad_norm=1e6")
    actual = [update(config, policy, batch, replace(SINGLE_UPDATE, advantage_scale=scale))[1] for scale in (1.0, 0.25)]
    assert actual[1]["actor/grad_norm"] == pytest.approx(actual[0]["actor/grad_norm"] / 4, rel=1e-5)
    config.algorithm.entropy_coef = 1.0
    actual = [update(config, policy, batch, replace(SINGLE_UPDATE, advantage_scale=scale))[1] for scale in (1.0, 0.25)]
    assert actual[1]["actor/grad_norm"] > 0.5 * actual[0]["actor/grad_norm"]


def test_a_learning_rate_scale_shortens_the_step(config, policy, batch, update, moved):
    config = config("algorithm=grpo")
    single, other = (update(config, policy, batch, replace(SINGLE_UPDATE, lr_scale=scale))[0] for scale in (1.0, 0.25))
    torch.testing.assert_close(moved(single, policy) / 4, moved(other, policy), atol=1e-9, rtol=1e-6)
    assert other.actor.lr == config.train.lr


def test_the_reference_stays_the_base_model(config, policy, batch, update, make_learner):
    config = config("algorithm=grpo", "algorithm.kl_coef=0.1")
    learner, first = update(config, policy, batch, SINGLE_UPDATE)
    assert first["actor/kl"] == pytest.approx(0, abs=1e-9)
    second = learner.update(batch, SINGLE_UPDATE, np.random.default_rng(3), 2)
    assert second["actor/kl"] > 1e-6
    assert torch.equal(learner.reference, policy.flat.double())
    config.algorithm.kl_coef = 0.0
    assert make_learner(config, policy).reference is None


def test_the_first_update_is_on_policy(config, policy, batch, update):
    """What the rollout recorded is what the update computes: the ratio is 1 and nothing is clipped."""
    _, metrics = update(config("algorithm=grpo"), policy, batch, SINGLE_UPDATE)
    assert metrics["actor/ppo_kl"] == pytest.approx(0, abs=1e-5)
    assert metrics["actor/clip_fraction"] == 0
    tokens = batch.response_length.sum()
    assert metrics["actor/entropy"] == pytest.approx(float(batch.entropies.sum() / tokens), abs=1e-4)


def test_a_warming_critic_leaves_the_actor_alone(config, policy, batch, update):
    config = config("algorithm=ppo", "train.critic_warmup=2")
    learner, metrics = update(config, policy, batch, step=2)
    assert torch.equal(learner.actor.parameter, policy.flat.double())
    assert not any(name.startswith("actor/") for name in metrics) and "critic/value_loss" in metrics
    learner.update(batch, PLAN, np.random.default_rng(3), 3)
    assert not torch.equal(learner.actor.parameter, policy.flat.double())


def test_a_group_without_spread_teaches_nothing(config, policy, batch, update, moved):
    """Equal returns give no advantage, also when their mean is rounded."""
    same = replace(batch, rewards=np.zeros(len(batch.rewards)))
    same.rewards[np.unique(same.trajectory_of_row, return_index=True)[1]] = 0.1
    config = config("algorithm=grpo", "algorithm.entropy_coef=0", "dtype=float32")
    learner, metrics = update(config, policy, same)
    assert metrics["actor/grad_norm"] < 1e-9
    assert float(moved(learner, policy).abs().max()) < 0.01 * config.train.lr


def test_more_updates_than_trajectories(config, policy, batch, update):
    learner, _ = update(config("algorithm=grpo"), policy, batch.select(np.arange(2)), replace(SINGLE_UPDATE, updates=5))
    assert float(learner.actor.optimiser.state[learner.actor.parameter]["step"]) == 2


@pytest.mark.parametrize("name", ["ppo", "grpo"])
def test_a_reward_that_is_no_number_ends_the_run(config, policy, batch, name, make_learner):
    broken = replace(batch, rewards=np.where(np.arange(len(batch.rewards)) == 1, np.nan, batch.rewards))
    learner = make_learner(config(f"algorithm={name}"), policy)
    with pytest.raises(RunError) as raised:
        learner.update(broken, PLAN, np.random.default_rng(0), 1)
    assert raised.value.failure_class == "nan"
    assert torch.equal(learner.actor.parameter, policy.flat.double())


@pytest.mark.parametrize("name", ["ppo", "grpo"])
def test_a_restored_learner_goes_on_bit_for_bit(config, policy, batch, name, update, make_learner):
    config = config(f"algorithm={name}", "dtype=float32")
    single, _ = update(config, policy, batch)
    other = make_learner(config, policy)
    other.restore({name: tensor.clone() for name, tensor in single.tensors().items()})
    for learner in (single, other):
        learner.update(batch, PLAN, np.random.default_rng(4), 2)
    assert single.tensors().keys() == other.tensors().keys()
    for key, tensor in single.tensors().items():
        assert torch.equal(tensor, other.tensors()[key]), key
