"""One iteration's updates against a slow trainer: transformers' model, one row at a time, and torch's AdamW."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from plat.errors import RunError
from plat.rl import algorithms
from plat.rl.algorithms import Aggregation
from plat.rl.config import FilterConfig
from plat.rl.filter import StepPlan, step_plan
from plat.trainer.embedded.adam import Adam
from plat.trainer.embedded.learner import Learner
from plat.trainer.embedded.transformer import hf

PLAN = step_plan(6, 6, FilterConfig(), 2)
ALGORITHMS = ("ppo", "dapo", "grpo", "drgrpo")


def learner_of(config, policy):
    return Learner(config, policy.shape, policy.flat.to(getattr(torch, config.dtype)))


def update(config, policy, batch, plan=PLAN, step=1):
    """A fresh learner after one iteration's updates, and the metrics."""
    learner = learner_of(config, policy)
    metrics = learner.update(batch, plan, np.random.default_rng(3), policy.tokenizer.pad, step)
    return learner, metrics


def moved(learner, policy):
    """How far the actor went, parameter by parameter."""
    return learner.actor.parameter.detach().double() - policy.flat.double()


@pytest.fixture
def config(compose):
    def make(*overrides):
        return compose("task=frozenlake", "dtype=float64", "train.lr=1e-3", *overrides)

    return make


@pytest.fixture(scope="module")
def batch(compose, play):
    """Two groups of three, with returns that differ within each."""
    actual = play(compose("task=frozenlake"))
    actual.rewards = np.round(np.random.default_rng(0).normal(size=len(actual.rewards)), 2)
    return actual


# --- the slow trainer -------------------------------------------------------------------------------------------------


class Slow:
    def __init__(self, config, policy):
        from transformers import Qwen2ForCausalLM

        def model():
            return Qwen2ForCausalLM.from_pretrained(policy.folder, dtype=torch.float64, attn_implementation="eager")

        def optimiser(parameters, lr):
            betas = (config.train.beta1, config.train.beta2)
            return torch.optim.AdamW(parameters, lr=lr, betas=betas, weight_decay=config.train.weight_decay)

        self.config, self.algorithm = config, config.algorithm
        self.actor, self.reference, self.critic = model(), model(), model()
        self.head = torch.nn.Linear(policy.shape.width, 1, dtype=torch.float64)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self.valuers = [*self.critic.parameters(), *self.head.parameters()]
        self.actor_optimiser = optimiser(self.actor.parameters(), config.train.lr)
        self.critic_optimiser = optimiser(self.valuers, config.train.critic_lr)

    def lines(self, batch, trajectories, per_row):
        """(N, T) from a function of (row, prompt, response), turn after turn; zeros behind."""
        actual = []
        for n in trajectories:
            rows = np.flatnonzero(batch.trajectory_of_row == n)
            parts = []
            for row in rows:
                response = torch.from_numpy(batch.responses[row, : batch.response_length[row]])
                parts.append(per_row(row, torch.tensor(batch.prompts[batch.prompt_of_row[row]]), response))
            actual.append(torch.cat(parts))
        return torch.nn.utils.rnn.pad_sequence(actual, batch_first=True)

    def spoken(self, model, batch, trajectories):
        """Log-probabilities and entropies of the response tokens."""

        def both(row, prompt, response):
            logits = model(torch.cat((prompt, response))[None]).logits[0, len(prompt) - 1 : -1]
            chosen = torch.distributions.Categorical(logits=logits / self.config.train.temperature)
            return torch.stack((chosen.log_prob(response), chosen.entropy()), -1)

        return self.lines(batch, trajectories, both).unbind(-1)

    def values(self, batch, trajectories):
        """The value head reads the normalised hidden state without the final norm's weight."""

        def value(row, prompt, response):
            hidden = self.critic.model(torch.cat((prompt, response))[None]).last_hidden_state[0, len(prompt) - 1 : -1]
            return self.head(hidden / self.critic.model.norm.weight)[:, 0]

        return self.lines(batch, trajectories, value)

    def update(self, batch, plan, warming=False):
        everyone = range(batch.trajectories)
        mask = self.lines(batch, everyone, lambda row, prompt, response: torch.ones(len(response)))

        def reward(row, prompt, response):
            tokens = torch.zeros(len(response), dtype=torch.float64)
            tokens[-1] = batch.rewards[row]
            return tokens

        def recorded(row, prompt, response):
            return torch.from_numpy(batch.log_probs[row, : len(response)]).double()

        rewards, old = self.lines(batch, everyone, reward), self.lines(batch, everyone, recorded)
        critic = self.algorithm.advantage == "gae"
        with torch.no_grad():
            values = self.values(batch, everyone) if critic else None
            reference = self.spoken(self.reference, batch, everyone)[0] if self.algorithm.kl_coef else None
        advantages, returns = algorithms.advantages(self.algorithm, rewards, mask, batch.group, values)
        advantages = advantages * plan.advantage_scale
        longest = self.config.task.turns * self.config.task.response_tokens
        for part in np.array_split(np.random.default_rng(3).permutation(batch.trajectories), plan.updates):
            part = np.sort(part)
            width = int(mask[part].sum(1).max())
            own = mask[part, :width]
            if not warming:
                log_probs, entropies = self.spoken(self.actor, batch, part)
                loss, _ = algorithms.actor_loss(
                    self.algorithm,
                    old[part, :width],
                    log_probs,
                    advantages[part, :width],
                    own,
                    token_entropy=entropies,
                    ref_logp=None if reference is None else reference[part, :width],
                    aggregation=Aggregation(loss_scale_factor=longest),
                )
                self.step(loss * plan.loss_scale, list(self.actor.parameters()), self.actor_optimiser, plan)
            if critic:
                predicted = self.values(batch, part)
                loss, _ = algorithms.value_loss(
                    self.algorithm, predicted, returns[part, :width], values[part, :width], own
                )
                self.step(loss * plan.loss_scale, self.valuers, self.critic_optimiser, plan)

    def step(self, loss, parameters, optimiser, plan):
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, self.config.train.max_grad_norm)
        before = [group["lr"] for group in optimiser.param_groups]
        for group in optimiser.param_groups:
            group["lr"] *= plan.lr_scale
        optimiser.step()
        for group, lr in zip(optimiser.param_groups, before, strict=True):
            group["lr"] = lr
        optimiser.zero_grad()


def assert_same_parameters(shape, flat, model, lr):
    theirs = {name: item.detach() for name, item in model.named_parameters()}
    for name, tensor in hf.to_state_dict(shape, flat.detach()).items():
        error = (tensor - theirs[name]).abs().flatten() / lr
        # Adam divides by the gradient's size: where that is almost zero, rounding may show
        assert float(error.mean()) < 1e-3 and float(error.quantile(0.99)) < 0.01, (name, error.mean(), error.max())


@pytest.mark.parametrize(
    "options",
    [
        *[(f"algorithm={name}",) for name in ALGORITHMS],
        ("algorithm=grpo", "algorithm.kl_coef=0.1", "algorithm.entropy_coef=0.05", "train.temperature=0.8"),
        ("algorithm=drgrpo", "algorithm.loss_agg=seq-mean-token-sum-norm", "train.weight_decay=0.1"),
        ("algorithm=ppo", "algorithm.lam=0.9", "algorithm.gamma=0.97", "train.max_grad_norm=0.05"),
    ],
    ids=lambda options: "+".join(item.partition(".")[2] or item for item in options),
)
@pytest.mark.parametrize("plan", [PLAN, StepPlan(3, 0.5, 0.7, 0.6, 0.5)], ids=["plain", "scaled"])
def test_the_updates_of_an_iteration_are_those_of_the_slow_trainer(config, policy, batch, options, plan):
    config = config(*options)
    learner, _ = update(config, policy, batch, plan)
    slow = Slow(config, policy)
    slow.update(batch, plan)
    assert float(moved(learner, policy).abs().max()) > 0.3 * config.train.lr * plan.lr_scale
    assert_same_parameters(policy.shape, learner.actor.parameter, slow.actor, config.train.lr)
    if learner.critic:
        width = policy.shape.width + 1
        assert_same_parameters(policy.shape, learner.critic.parameter[:-width], slow.critic, config.train.critic_lr)
        head = torch.cat((slow.head.weight[0], slow.head.bias)).detach()
        torch.testing.assert_close(learner.critic.parameter[-width:].detach(), head, atol=1e-5, rtol=1e-3)


# --- what must not matter, and what must ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("size", [1, 2])
def test_micro_batches_change_only_rounding(config, policy, batch, name, size):
    whole = config(f"algorithm={name}", "algorithm.kl_coef=0.1")
    parts = config(f"algorithm={name}", "algorithm.kl_coef=0.1", f"train.micro_batch={size}")
    (single, metrics), (other, again) = update(whole, policy, batch), update(parts, policy, batch)
    assert float((moved(single, policy) - moved(other, policy)).abs().max()) < 0.01 * whole.train.lr
    assert metrics.keys() == again.keys()
    for key, value in metrics.items():
        assert again[key] == pytest.approx(value, rel=1e-3, abs=1e-6), key


def test_rows_of_other_lengths_do_not_matter(config, policy, batch, monkeypatch):
    """Responses computed in groups of one length, or all padded to the longest."""
    from plat.trainer.embedded.transformer import flat_pass as module

    config = config("algorithm=ppo")
    single, _ = update(config, policy, batch)
    monkeypatch.setattr(module, "length_groups", lambda lengths, worth: [np.arange(len(lengths))])
    other, _ = update(config, policy, batch)
    assert float((moved(single, policy) - moved(other, policy)).abs().max()) < 0.01 * config.train.lr


def test_only_kept_trajectories_teach(config, policy, batch):
    config = config("algorithm=grpo")
    kept = batch.select(np.arange(3))
    strange = replace(batch, rewards=np.where(batch.trajectory_of_row < 3, batch.rewards, 99.0))
    single, _ = update(config, policy, kept)
    other, _ = update(config, policy, strange.select(np.arange(3)))
    assert torch.equal(single.actor.parameter, other.actor.parameter)
    everyone, _ = update(config, policy, strange)
    assert not torch.equal(single.actor.parameter, everyone.actor.parameter)


ONE = StepPlan(1, 1.0, 1.0, 1.0, 1.0)


def test_a_loss_scale_scales_the_gradient_and_adam_hides_it(config, policy, batch):
    config = config("algorithm=ppo", "train.max_grad_norm=1e6")
    (single, metrics), (other, scaled) = (
        update(config, policy, batch, replace(ONE, loss_scale=scale)) for scale in (1.0, 0.25)
    )
    for part in ("actor", "critic"):
        assert scaled[f"{part}/grad_norm"] == pytest.approx(metrics[f"{part}/grad_norm"] / 4, rel=1e-6)
    assert float((moved(single, policy) - moved(other, policy)).abs().median()) < 1e-3 * config.train.lr


def test_an_advantage_scale_weakens_the_task_only(config, policy, batch):
    config = config("algorithm=grpo", "algorithm.entropy_coef=0", "train.max_grad_norm=1e6")
    actual = [update(config, policy, batch, replace(ONE, advantage_scale=scale))[1] for scale in (1.0, 0.25)]
    assert actual[1]["actor/grad_norm"] == pytest.approx(actual[0]["actor/grad_norm"] / 4, rel=1e-5)
    config.algorithm.entropy_coef = 1.0
    actual = [update(config, policy, batch, replace(ONE, advantage_scale=scale))[1] for scale in (1.0, 0.25)]
    assert actual[1]["actor/grad_norm"] > 0.5 * actual[0]["actor/grad_norm"]


def test_a_learning_rate_scale_shortens_the_step(config, policy, batch):
    config = config("algorithm=grpo")
    single, other = (update(config, policy, batch, replace(ONE, lr_scale=scale))[0] for scale in (1.0, 0.25))
    torch.testing.assert_close(moved(single, policy) / 4, moved(other, policy), atol=1e-9, rtol=1e-6)
    assert other.actor.lr == config.train.lr


def test_the_reference_stays_the_base_model(config, policy, batch):
    config = config("algorithm=grpo", "algorithm.kl_coef=0.1")
    learner, first = update(config, policy, batch, ONE)
    assert first["actor/kl"] == pytest.approx(0, abs=1e-9)
    second = learner.update(batch, ONE, np.random.default_rng(3), 0, 2)
    assert second["actor/kl"] > 1e-6
    assert torch.equal(learner.reference, policy.flat.double())
    config.algorithm.kl_coef = 0.0
    assert learner_of(config, policy).reference is None


def test_the_first_update_is_on_policy(config, policy, batch):
    """What the rollout recorded is what the update computes: the ratio is 1 and nothing is clipped."""
    _, metrics = update(config("algorithm=grpo"), policy, batch, ONE)
    assert metrics["actor/ppo_kl"] == pytest.approx(0, abs=1e-5)
    assert metrics["actor/clip_fraction"] == 0
    tokens = batch.response_length.sum()
    assert metrics["actor/entropy"] == pytest.approx(float(batch.entropies.sum() / tokens), abs=1e-4)


def test_a_warming_critic_leaves_the_actor_alone(config, policy, batch):
    config = config("algorithm=ppo", "train.critic_warmup=2")
    learner, metrics = update(config, policy, batch, step=2)
    assert torch.equal(learner.actor.parameter, policy.flat.double())
    assert not any(name.startswith("actor/") for name in metrics) and "critic/value_loss" in metrics
    learner.update(batch, PLAN, np.random.default_rng(3), 0, 3)
    assert not torch.equal(learner.actor.parameter, policy.flat.double())


def test_a_group_without_spread_teaches_nothing(config, policy, batch):
    """Equal returns give no advantage, also when their mean is rounded."""
    same = replace(batch, rewards=np.zeros(len(batch.rewards)))
    same.rewards[np.unique(same.trajectory_of_row, return_index=True)[1]] = 0.1
    config = config("algorithm=grpo", "algorithm.entropy_coef=0", "dtype=float32")
    learner, metrics = update(config, policy, same)
    assert metrics["actor/grad_norm"] < 1e-9
    assert float(moved(learner, policy).abs().max()) < 0.01 * config.train.lr


def test_more_updates_than_trajectories(config, policy, batch):
    learner, _ = update(config("algorithm=grpo"), policy, batch.select(np.arange(2)), replace(ONE, updates=5))
    assert float(learner.actor.optimiser.state[learner.actor.parameter]["step"]) == 2


# --- failures, and the state of an optimiser --------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_gradient_that_is_no_number_ends_the_run_and_leaves_the_weights(value):
    flat = torch.ones(4)
    adam = Adam(flat, 0.1, (0.9, 0.999), 0.0, 1.0)
    (adam.parameter * torch.tensor([1.0, 1.0, value, 1.0])).sum().backward()
    with pytest.raises(RunError) as raised:
        adam.step()
    assert raised.value.failure_class == "nan" and raised.value.mend
    assert torch.equal(adam.parameter, torch.ones(4)) and not adam.state("a").keys() - {"a.parameters"}


@pytest.mark.parametrize("name", ["ppo", "grpo"])
def test_a_reward_that_is_no_number_ends_the_run(config, policy, batch, name):
    broken = replace(batch, rewards=np.where(np.arange(len(batch.rewards)) == 1, np.nan, batch.rewards))
    learner = learner_of(config(f"algorithm={name}"), policy)
    with pytest.raises(RunError) as raised:
        learner.update(broken, PLAN, np.random.default_rng(0), 0, 1)
    assert raised.value.failure_class == "nan"
    assert torch.equal(learner.actor.parameter, policy.flat.double())


@pytest.mark.parametrize("name", ["ppo", "grpo"])
def test_a_restored_learner_goes_on_bit_for_bit(config, policy, batch, name):
    config = config(f"algorithm={name}", "dtype=float32")
    single, _ = update(config, policy, batch)
    other = learner_of(config, policy)
    other.restore({name: tensor.clone() for name, tensor in single.tensors().items()})
    for learner in (single, other):
        learner.update(batch, PLAN, np.random.default_rng(4), 0, 2)
    assert single.tensors().keys() == other.tensors().keys()
    for key, tensor in single.tensors().items():
        assert torch.equal(tensor, other.tensors()[key]), key


def test_the_optimiser_is_torchs_adamw_with_clipping():
    generator = torch.Generator().manual_seed(0)
    flat = torch.randn(20, generator=generator)
    plain = flat.clone().requires_grad_()
    ours = Adam(flat.clone(), 0.01, (0.8, 0.95), 0.1, 0.5)
    theirs = torch.optim.AdamW([plain], lr=0.01, betas=(0.8, 0.95), weight_decay=0.1)
    for _ in range(5):
        gradient = torch.randn(20, generator=generator)
        ours.parameter.grad, plain.grad = gradient.clone(), gradient.clone()
        norm = ours.step()
        assert norm == pytest.approx(float(torch.nn.utils.clip_grad_norm_([plain], 0.5)))
        theirs.step()
    torch.testing.assert_close(ours.parameter.detach(), plain.detach(), atol=1e-6, rtol=1e-5)
