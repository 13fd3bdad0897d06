"""The trajectories of a training iteration: P prompts with G trajectories each, and DAPO's refills."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from plat.trainer.config import RunConfig
from plat.trainer.embedded.batch import Batch, concatenate, is_last_turn
from plat.trainer.embedded.rollout import Episodes, Sampling, rollout
from plat.trainer.embedded.transformer.model import Weights
from plat.trainer.embedded.transformer.tokenizer import Tokenizer
from plat.trainer.environments import make_environments
from plat.trainer.loop.randomness import (
    GRADIENT,
    PRECHECK,
    REWARD,
    TRAINING,
    Key,
    generator,
    gradient_seeds,
    precheck_seeds,
    training_seeds,
)
from plat.trainer.loop.refill import refill


class Collector:
    """Rolls out training batches. What is played is a function of (seed, step, refill), never of earlier batches."""

    def __init__(self, config: RunConfig, tokenizer: Tokenizer) -> None:
        train, task = config.train, config.task
        self.config, self.tokenizer = config, tokenizer
        self.environments = make_environments(config, "train", train.prompts * train.group_size)
        self.sampling = Sampling(task.turns, task.response_tokens, train.temperature, train.context, task.token_cost)

    def rollout(self, policy: Weights, step: int) -> Batch:
        """P fresh instances, G trajectories of the policy on each."""
        return self._rollout(policy, step, 0, self.config.train.prompts)

    def replace_uninformative(self, policy: Weights, batch: Batch, step: int) -> tuple[Batch, dict[str, float]]:
        """DAPO's dynamic sampling: prompts whose returns are all equal give way to fresh ones.

        At most `max_refills` further rollouts; the batch may have fewer than P prompts in the end, or none.
        """
        train = self.config.train

        def roll_out(number: int, prompts: int) -> Batch:
            return self._rollout(policy, step, number, prompts)

        max_refills = self.config.algorithm.max_refills
        batches, trajectories, metrics = refill(batch, roll_out, train.prompts, train.group_size, max_refills)
        return concatenate(batches).select(trajectories), metrics

    def gradient_probe(self, policy: Weights, step: int) -> Batch:
        """The batch of a gradient probe: instances of the training split that the run does not train on."""
        seed, probe = self.config.seed, self.config.gradient
        instances = gradient_seeds(seed, step, probe.prompts)
        return self._measured_only(policy, instances, probe.group_size, (GRADIENT, seed, step))

    def precheck(self, policy: Weights) -> Batch:
        """`train.precheck` instances of the training split that the run does not train on, in groups as it trains."""
        seed, train = self.config.seed, self.config.train
        return self._measured_only(policy, precheck_seeds(seed, train.precheck), train.group_size, (PRECHECK, seed))

    def _measured_only(self, policy: Weights, instances: range, size: int, key: Key) -> Batch:
        count = len(instances)
        episodes = Episodes(
            make_environments(self.config, "train", count * size),
            np.repeat(instances, size).tolist(),
            np.tile(np.arange(size), count).tolist(),
            np.repeat(np.arange(count), size),
        )
        batch = rollout(policy, self.tokenizer, episodes, self.sampling, key)
        return with_reward_noise(batch, self.config.task.reward_noise, (REWARD, *key))

    def _rollout(self, policy: Weights, step: int, number: int, prompts: int) -> Batch:
        config, size = self.config, self.config.train.group_size
        instances = training_seeds(config.seed, step, number, config.train.prompts)[:prompts]
        episodes = Episodes(
            self.environments[: prompts * size],
            [instance for instance in instances for _ in range(size)],
            [member for _ in instances for member in range(size)],
            np.repeat(np.arange(prompts), size) + number * config.train.prompts,
        )
        batch = rollout(policy, self.tokenizer, episodes, self.sampling, (TRAINING, config.seed, step, number))
        return with_reward_noise(batch, config.task.reward_noise, (REWARD, config.seed, step, number))


def with_reward_noise(batch: Batch, std: float, key: Key) -> Batch:
    """The batch with Gaussian noise of mean 0 on the reward of each trajectory's last turn.

    The number of trajectory n is a function of (key, n) alone. Success and everything that was said stay as they are.
    """
    if not std:
        return batch
    rewards = batch.rewards.copy()
    rewards[is_last_turn(batch)] += std * generator(*key).standard_normal(batch.trajectories)
    return replace(batch, rewards=rewards)
