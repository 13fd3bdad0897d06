"""Collect the trajectories of a training iteration: P prompts with G trajectories each, and DAPO's refills."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from plat_rl.embedded.batch import Batch, concatenate, is_last_turn
from plat_rl.embedded.rollout import Episodes, Sampling, rollout
from plat_rl.embedded.transformer.model import Weights
from plat_rl.embedded.transformer.tokenizer import Tokenizer
from plat_rl.loop import randomness
from plat_rl.loop.prompt_selection import refill
from plat_rl.loop.randomness import GRADIENT, PRECHECK, REWARD, TRAINING, Key
from plat_rl.run_config import RunConfig
from plat_rl.sessions import Sessions


class Collector:
    """Roll out training batches, each a function of the policy and (seed, step, refill) alone."""

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, sessions: Sessions | None = None) -> None:
        train, task = config.train, config.task
        self.config, self.tokenizer = config, tokenizer
        self.sessions = sessions or Sessions(config)
        self.sampling = Sampling(task.turns, task.response_tokens, train.temperature, train.context, task.token_cost)

    def rollout(self, policy: Weights, step: int) -> Batch:
        """Play P training instances, whose seeds no other step uses, with G trajectories each."""
        return self._rollout(policy, step, 0, self.config.train.prompts)

    def replace_uninformative(self, policy: Weights, batch: Batch, step: int) -> tuple[Batch, dict[str, float]]:
        """Replace prompts whose returns are all equal by fresh ones (DAPO's dynamic sampling).

        Makes at most `max_refills` further rollouts. The returned batch may have fewer than P prompts, or none; the
        metrics count the refills and the prompts that are left (`refill`).
        """
        batches, trajectories, metrics = refill(batch, partial(self._rollout, policy, step), self.config)
        return concatenate(batches).select(trajectories), metrics

    def gradient_probe(self, policy: Weights, step: int) -> Batch:
        """Play the batch of a gradient probe: instances of the training split that the run does not train on."""
        seed, probe = self.config.seed, self.config.gradient
        key, instances = (GRADIENT, seed, step), randomness.gradient_seeds(seed, step, probe.prompts)
        return self._play(policy, instances, probe.group_size, key, (REWARD, *key))

    def precheck(self, policy: Weights) -> Batch:
        """Play `train.precheck` instances of the training split that the run does not train on, in groups of G."""
        seed, train = self.config.seed, self.config.train
        key, instances = (PRECHECK, seed), randomness.precheck_seeds(seed, train.precheck)
        return self._play(policy, instances, train.group_size, key, (REWARD, *key))

    def _rollout(self, policy: Weights, step: int, number: int, prompts: int) -> Batch:
        config, key = self.config, (self.config.seed, step, number)
        instances = randomness.training_seeds(*key, config.train.prompts)[:prompts]
        batch = self._play(policy, instances, config.train.group_size, (TRAINING, *key), (REWARD, *key))
        return replace(batch, group=batch.group + number * config.train.prompts)

    def _play(self, policy: Weights, instances: range, size: int, key: Key, noise: Key) -> Batch:
        """Play each instance `size` times. `key` and `noise` are those of the tokens and of the reward noise."""
        count = len(instances)
        seeds = [seed for seed in instances for _ in range(size)]
        with self.sessions.lease("train", count * size) as environments:
            groups, noises = np.repeat(np.arange(count), size), [*range(size)] * count
            episodes = Episodes(environments, seeds, noises, groups, self.sessions.concurrent)
            batch = rollout(policy, self.tokenizer, episodes, self.sampling, key)
        return with_reward_noise(batch, self.config.task.reward_noise, noise)


def with_reward_noise(batch: Batch, std: float, key: Key) -> Batch:
    """Return the batch with Gaussian noise of mean 0 and deviation `std` added to each trajectory's last reward.

    The noise of trajectory n is a function of (key, n) alone. `batch` does not change; it is returned for `std` 0.
    """
    if not std:
        return batch
    rewards = batch.rewards.copy()
    rewards[is_last_turn(batch)] += std * randomness.generator(*key).standard_normal(batch.trajectories)
    return replace(batch, rewards=rewards)
