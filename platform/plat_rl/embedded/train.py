"""The training loop: reinforcement learning on filtered batches (Algorithm 1 of the paper), and its measurements.

The policy is a language model that plays text games. It answers each prompt (the state of a game) with a reasoning,
between think tags, and then with actions. An iteration (`_Run._iterate`) has these parts:

    rollout       The policy plays P training instances, G times each (`collect`). The G trajectories of an instance
                  form a group. The return of a trajectory is the sum of its rewards plus `task.reward_noise`.
    cross_score   Measure how much the reasonings tell about their prompts, before any part is dropped (Table 1).
    gradient      Measure the gradient norm on prompts of small and of large reward spread, on a batch not used for
                  learning (`plat_rl.rl.gradient_probe`).
    refill        With DAPO: replace instances whose G returns are all equal, which teach nothing (`collect`).
    filter        Score each instance, usually by the spread of its G returns, and keep the best (section 4).
    update        Make optimiser steps of PPO or GRPO on the kept trajectories (`learner`).
    eval          Measure the success of the updated policy on fixed validation instances (`evaluate`).
    probe         Measure on fresh instances whether a reasoning can still be matched to its prompt (`probe`).

`plat_rl.loop.bookkeeper` decides when each measurement is due, when to log and save, and when a run ends. Then the
policy with the highest validation success (the peak) and the final one play the held-out instances.

Step s is the policy after s iterations; step 0 is the base model. At step s, `val/` and `probe/` describe that policy.
`rollout/`, `mi/` and `filter/` describe the batch of iteration s, which the policy of step s - 1 played. `actor/` and
`critic/` describe the update between the two. The random numbers of an iteration depend on (seed, step) alone
(`loop.randomness`), so a run resumed from a checkpoint gives the same bits as an uninterrupted one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from plat.trainer.api import Outcome, RunIO, State
from plat_rl.embedded.base_model.load import describe, load_base
from plat_rl.embedded.batch import Batch, concatenate, is_last_turn
from plat_rl.embedded.evaluate import evaluate, evaluate_replaced, transcripts
from plat_rl.embedded.learner import Learner
from plat_rl.embedded.probe import Probe, halves_metrics
from plat_rl.embedded.rollout import Episodes, Sampling, rollout
from plat_rl.embedded.scoring import measure, set_up
from plat_rl.embedded.transformer.model import Weights, unpack
from plat_rl.embedded.transformer.tokenizer import Tokenizer
from plat_rl.environments import Sessions, facts_of_task
from plat_rl.loop import randomness
from plat_rl.loop.bookkeeper import Bookkeeper
from plat_rl.loop.prompt_selection import filter_batch, refill, update_plan
from plat_rl.loop.randomness import (
    GRADIENT,
    HALVES,
    PRECHECK,
    REWARD,
    SCORING,
    SELECTING,
    TRAINING,
    UPDATING,
    FixedInstances,
    Key,
    generator,
)
from plat_rl.loop.trainable import Measured
from plat_rl.loop.trajectory_table import batch_metrics, instance_results
from plat_rl.metric_names import VAL_TRAJECTORIES
from plat_rl.rl.gradient_probe import gradient_metrics
from plat_rl.rl.statistics import variance
from plat_rl.run_config import RunConfig


def train(config: RunConfig, io: RunIO) -> Outcome:
    """Train from the base model, or from `io.restore()`, to `train.iterations`, an early stop or `io.should_stop()`."""
    set_up(config)
    return _Run(config, io).to_the_end()


class _Run:
    """One run. The book-keeper decides when to measure, log and save.

    learner       the policy, its optimiser and, for PPO, the critic
    collector     plays the training instances
    validation    fixed instances, played at every evaluation; their success decides the peak
    heldout       fixed instances that only the base model, the peak and the final policy play
    book          the book-keeper, which calls the methods of `plat_rl.loop.trainable.Trainable`
    """

    def __init__(self, config: RunConfig, io: RunIO) -> None:
        self.config = config
        base = load_base(config, io.cache)
        io.facts(
            {"base_sha256": base.sha256, **facts_of_task(config)}
        )  # before restoring: a run never resumes from another base model
        self.shape, self.tokenizer = base.shape, base.tokenizer
        self.learner = Learner(config, self.shape, base.parameters, self.tokenizer.pad)
        sessions = Sessions(config)
        self.collector = Collector(config, self.tokenizer, sessions)
        self.validation = FixedInstances(config, "validation", config.eval.instances, sessions)
        self.heldout = FixedInstances(config, "heldout", config.eval.heldout, sessions)
        self.reasoning_probe = Probe(config, self.tokenizer, self.heldout.problems, sessions)
        self.book = Bookkeeper(config, io, self)

    def to_the_end(self) -> Outcome:
        """Iterate until `train.iterations`, an early stop, or the platform's request to stop for now."""
        self.book.start(self._precheck if self.config.train.precheck else None)
        while not self.book.is_over:
            self._iterate()
        return self.book.finish(describe(self.config, self.shape))

    def _precheck(self) -> Measured:
        """Return the `precheck/` metrics of the base model on a separate batch (Table 8), and its reward matrix."""
        size = self.config.train.group_size
        batch = self.collector.precheck(self.learner.policy())
        metrics = batch_metrics(batch, size, self.config.train.prompt_metrics)
        returns = batch.returns.reshape(-1, size)
        rv_std = math.sqrt(float(variance(np.sqrt(variance(returns, ddof=1)), ddof=1)))
        renamed = {name.replace("rollout/", "precheck/"): value for name, value in metrics.items()}
        return Measured(renamed | {"precheck/rv_std": rv_std}, {"rewards": np.round(returns, 6).tolist()})

    def _iterate(self) -> None:
        book, config = self.book, self.config
        step = book.begin_iteration()
        policy = self.learner.policy()
        with book.timed("rollout"):
            batch = self.collector.rollout(policy, step)
        size = config.train.group_size
        book.rolled_out(batch.returns.reshape(-1, size), batch_metrics(batch, size, config.train.prompt_metrics))
        if book.measures_mutual_information:
            with book.timed("cross_score"):
                book.add(self._mutual_information(policy, batch, step))
        if book.measures_gradients:
            with book.timed("gradient"):
                book.add(self._gradients(policy, step))
        if config.algorithm.dynamic_sampling:
            with book.timed("refill"):
                batch, refill_metrics = self.collector.replace_uninformative(policy, batch, step)
                book.add(refill_metrics)
        with book.timed("filter"):
            rng = generator(SELECTING, config.seed, step)
            selection, kept_trajectories = filter_batch(batch, config.filter, config.train.group_size, rng)
        book.add(selection.metrics())
        with book.timed("update"):
            book.add(self._update(batch, kept_trajectories, step))
        book.end_iteration(empty=not len(kept_trajectories))

    def _mutual_information(self, policy: Weights, batch: Batch, step: int) -> dict[str, float]:
        """Return the `mi/` metrics (Table 1) of the batch before filtering; advance the moving averages."""
        rng = generator(SCORING, self.config.seed, step)
        pad, temperature = self.tokenizer.pad, self.config.train.temperature
        return measure(policy, batch, self.config.mi, self.book.progress.sigma_ema, pad, temperature, rng)

    def _gradients(self, policy: Weights, step: int) -> dict[str, float]:
        """Return the `grad/` metrics (figure 3) at the current weights, on a separate batch."""
        config = self.config.gradient
        batch = self.collector.gradient_probe(policy, step)
        returns = batch.returns.reshape(-1, config.group_size)
        norms = partial(self.learner.gradient_norms, batch, together=config.halves)
        metrics = gradient_metrics(returns, config, norms)
        if config.halves:
            rng = generator(HALVES, self.config.seed, step)
            metrics |= halves_metrics(self.learner, batch, config.buckets, config.group_size, rng)
        return metrics

    def _update(self, batch: Batch, kept: np.ndarray, step: int) -> dict[str, float]:
        """Update the policy on the trajectories numbered in `kept`, if there are any. Return the metrics."""
        plan, metrics = update_plan(len(kept), self.config.train, self.config.filter)
        if plan.updates:
            rng = generator(UPDATING, self.config.seed, step)
            metrics |= self.learner.update(batch.select(kept), plan, rng, step)
        return metrics

    # --- what the book-keeper asks for --------------------------------------------------------------------------------

    def validate(self) -> Measured:
        policy = self.learner.policy()
        metrics, batch = evaluate(policy, self.tokenizer, self.config, self.validation)
        further: dict[str, Any] = {}
        if count := self.config.eval.trajectories:
            further[VAL_TRAJECTORIES] = transcripts(batch, self.tokenizer, self.validation.seeds, count)
        if self.config.eval.reasoning_swap:
            replaced, batches = evaluate_replaced(policy, self.tokenizer, self.config, self.validation)
            metrics |= replaced
            further |= {f"val_{name}": instance_results(played) for name, played in batches.items()}
        return Measured(metrics, instance_results(batch), further)

    def evaluate_heldout(self, peak: State | None) -> Measured:
        policy = self.learner.policy()
        if peak is not None:
            policy = unpack(self.shape, peak.tensors["actor.parameters"].to(self.config.device))
        metrics, batch = evaluate(policy, self.tokenizer, self.config, self.heldout)
        return Measured(metrics, instance_results(batch))

    def probe(self, step: int, with_null: bool) -> Measured:
        policy = self.learner.policy()
        reasonings = self.reasoning_probe.draw(policy, step)
        result = self.reasoning_probe.score(policy, reasonings)
        null = {"probe/retrieval_untrained": self.reasoning_probe.untrained(policy, reasonings)} if with_null else {}
        return Measured(result.metrics() | null, result.table())

    def state(self) -> State:
        return State({name: tensor.cpu() for name, tensor in self.learner.tensors().items()})

    def restore(self, step: int, state: State) -> None:
        self.learner.restore(state.tensors)


# Collect the trajectories of a training iteration: P prompts with G trajectories each, and DAPO's refills.


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
