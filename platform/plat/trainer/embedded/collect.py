"""The trajectories of a training iteration: P prompts with G trajectories each, and DAPO's refills."""

from __future__ import annotations

import numpy as np

from plat.rl.dynamic_sampling import Refills
from plat.trainer.config import RunConfig
from plat.trainer.embedded.batch import Batch, concatenate
from plat.trainer.embedded.rollout import Episodes, Sampling, rollout
from plat.trainer.embedded.transformer.model import Weights
from plat.trainer.embedded.transformer.tokenizer import Tokenizer
from plat.trainer.environments import make_environments
from plat.trainer.loop.randomness import TRAINING, training_seeds
from plat.trainer.loop.trajectories import trajectories_of


class Collector:
    """Rolls out training batches. What is played is a function of (seed, step, refill), never of earlier batches."""

    def __init__(self, config: RunConfig, tokenizer: Tokenizer) -> None:
        train, task = config.train, config.task
        self.config, self.tokenizer = config, tokenizer
        self.environments = make_environments(config, "train", train.prompts * train.group_size)
        self.sampling = Sampling(task.turns, task.response_tokens, train.temperature, train.context, task.token_cost)

    def rollout(self, policy: Weights, step: int) -> Batch:
        """P fresh instances, G trajectories of the policy on each."""
        return self._rollout(policy, step, refill=0, prompts=self.config.train.prompts)

    def replace_uninformative(self, policy: Weights, batch: Batch, step: int) -> tuple[Batch, dict[str, float]]:
        """DAPO's dynamic sampling: prompts whose returns are all equal give way to fresh ones.

        At most `max_refills` further rollouts; the batch may have fewer than P prompts in the end, or none.
        """
        size = self.config.train.group_size
        refills = Refills(self.config.train.prompts, self.config.algorithm.max_refills)
        batches = [batch]
        missing = refills.offer(batch.returns.reshape(-1, size))
        while missing:
            batches.append(self._rollout(policy, step, refill=len(batches), prompts=missing))
            missing = refills.offer(batches[-1].returns.reshape(-1, size))
        first_of_batch = np.cumsum([0, *(part.trajectories for part in batches)])
        chosen = [first_of_batch[number] + trajectories_of([prompt], size) for number, prompt in refills.chosen]
        trajectories = np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)
        return concatenate(batches).select(trajectories), refills.metrics()

    def _rollout(self, policy: Weights, step: int, refill: int, prompts: int) -> Batch:
        config, size = self.config, self.config.train.group_size
        instances = training_seeds(config.seed, step, refill, config.train.prompts)[:prompts]
        episodes = Episodes(
            self.environments[: prompts * size],
            [instance for instance in instances for _ in range(size)],
            [member for _ in instances for member in range(size)],
            np.repeat(np.arange(prompts), size) + refill * config.train.prompts,
        )
        return rollout(policy, self.tokenizer, episodes, self.sampling, (TRAINING, config.seed, step, refill))
