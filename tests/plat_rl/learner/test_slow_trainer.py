"""One iteration's updates against a slow trainer: transformers' model, one row at a time, and torch's AdamW."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from plat_rl.embedded.transformer import hf
from plat_rl.rl import algorithms
from plat_rl.rl.algorithms import Aggregation
from plat_rl.rl.config import FilterConfig
from plat_rl.rl.filter.selection import StepPlan, step_plan

PLAN = step_plan(6, 6, FilterConfig(), 2)
ALGORITHMS = ("ppo", "dapo", "grpo", "drgrpo")


class SlowTrainer:
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
                    by=Aggregation(loss_scale_factor=longest),
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
@pytest.mark.parametrize("plan", [PLAN, StepPlan(3, 0.5, 0.7, 0.6)], ids=["plain", "scaled"])
def test_the_updates_of_an_iteration_are_those_of_the_slow_trainer(config, policy, batch, options, plan, update, moved):
    config = config(*options)
    learner, _ = update(config, policy, batch, plan)
    slow = SlowTrainer(config, policy)
    slow.update(batch, plan)
    assert float(moved(learner, policy).abs().max()) > 0.3 * config.train.lr * plan.lr_scale
    assert_same_parameters(policy.shape, learner.actor.parameter, slow.actor, config.train.lr)
    if learner.critic:
        width = policy.shape.width + 1
        assert_same_parameters(policy.shape, learner.critic.parameter[:-width], slow.critic, config.train.critic_lr)
        head = torch.cat((slow.head.weight[0], slow.head.bias)).detach()
        torch.testing.assert_close(learner.critic.parameter[-width:].detach(), head, atol=1e-5, rtol=1e-3)
