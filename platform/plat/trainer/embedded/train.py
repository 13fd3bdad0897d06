"""The training loop: reinforcement learning on filtered batches (Algorithm 1 of the paper), and what it measures.

The policy is a language model that plays text games. It answers each prompt (the state of a game) with a reasoning,
between think tags, and then with actions. An iteration (`_Run._iterate`) has these parts:

    rollout       the policy plays P training instances, G times each (`collect`). The G trajectories of one instance
                  are a group; the return of a trajectory is the sum of its rewards, with `task.reward_noise` on it
    cross_score   every `mi.every` iterations: how much the reasonings tell about their prompts, measured on the whole
                  batch before anything is dropped from it (`cross_score`, Table 1)
    gradient      every `gradient.every` iterations, or `gradient.times` times: the norm of the gradient on prompts of
                  small and of large reward spread, on a batch that nothing is learnt from (`plat.rl.gradient_probe`)
    refill        with `algorithm.dynamic_sampling` (DAPO): instances whose G returns are all equal teach nothing and
                  are replaced, as far as `max_refills` more rollouts find others (`collect`)
    filter        each instance gets a score, usually the spread of its G returns, and only the best are kept, each with
                  all of its G trajectories, or with a part of them under `within_group` (section 4, `loop.selection`).
                  With `filter=none` all are kept
    update        optimiser steps of PPO or GRPO on the trajectories that were kept (`learner`)
    eval          at step 0, every `eval.every` iterations and at the last one, of the updated policy: its success on
                  fixed validation instances, sampled with the same random numbers each time (`evaluate`)
    probe         at step 0, at every `mi.probe_every`th evaluation and at the last one: the reasoning probe, which asks
                  on fresh instances whether a reasoning can still be matched to the prompt that it was written for
                  (`probe`)

A run ends after `train.iterations`, or at an early stop. Then the policy with the highest validation success (the peak)
and the final one play the held-out instances, which nothing was chosen by.

Step s is the policy after s iterations; step 0 is the base model. At step s, `val/` and `probe/` are of that policy;
`rollout/`, `mi/` and `filter/` are of the batch that iteration s learned from, which the policy of step s - 1 played;
`actor/` and `critic/` are of the update between the two. What an iteration draws at random is a function of (seed,
step) alone (`loop.randomness`), so a run that is resumed from a checkpoint has the same bits as an undisturbed one.
When something is measured, logged and saved, and when a run ends, is decided in `plat.trainer.loop.bookkeeper`.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np
import torch

from plat.rl.gradient_probe import gradient_metrics
from plat.rl.scores import spread
from plat.rl.statistics import rv_summary
from plat.trainer.api import Outcome, RunIO, State
from plat.trainer.config import RunConfig
from plat.trainer.embedded.base_model.load import describe, load_base
from plat.trainer.embedded.batch import Batch
from plat.trainer.embedded.collect import Collector
from plat.trainer.embedded.cross_score import measure
from plat.trainer.embedded.evaluate import evaluate
from plat.trainer.embedded.gradient_halves import halves_metrics
from plat.trainer.embedded.learner import Learner
from plat.trainer.embedded.probe import Probe
from plat.trainer.embedded.reasoning_swap import evaluate_replaced
from plat.trainer.embedded.transcripts import transcripts
from plat.trainer.embedded.transformer.model import Weights, unpack
from plat.trainer.loop.bookkeeper import Bookkeeper
from plat.trainer.loop.instances import FixedInstances
from plat.trainer.loop.randomness import HALVES, SCORING, SELECTING, UPDATING, generator
from plat.trainer.loop.selection import filter_batch, update_plan
from plat.trainer.loop.trainable import Measured
from plat.trainer.loop.trajectories import batch_metrics, instance_results
from plat.trainer.table_names import VAL_TRAJECTORIES


def train(config: RunConfig, io: RunIO) -> Outcome:
    """Train from the base model, or from `io.restore()`, to `train.iterations` or an early stop (appendix B.2)."""
    torch.set_num_threads(config.threads)
    if config.device == "cuda":  # for the same bits after a resume; CUDA reads the variable when it starts
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
    return _Run(config, io).to_the_end()


class _Run:
    """One run; the rules of when something is measured, logged and saved are the book-keeper's.

    learner       the policy, its optimiser and, for PPO, the critic
    collector     plays the training instances
    validation    fixed instances that are played at every evaluation; their success decides which step is the peak
    heldout       fixed instances that only the base model, the peak and the final policy play; None: `eval.heldout: 0`
    book          the book-keeper, which asks for the methods that `plat.trainer.loop.trainable.Trainable` names
    """

    def __init__(self, config: RunConfig, io: RunIO) -> None:
        self.config = config
        base = load_base(config, io.cache)
        io.facts({"base_sha256": base.sha256})  # before restoring: a run never goes on from another base model
        self.shape, self.tokenizer = base.shape, base.tokenizer
        self.learner = Learner(config, self.shape, base.parameters)
        self.collector = Collector(config, self.tokenizer)
        self.validation = FixedInstances(config, "validation", config.eval.instances)
        self.heldout = FixedInstances(config, "heldout", config.eval.heldout) if config.eval.heldout else None
        self.reasoning_probe = None
        if config.mi.probe:
            self.reasoning_probe = Probe(config, self.tokenizer, self.heldout.problems() if self.heldout else set())
        self.book = Bookkeeper(config, io, self)

    def to_the_end(self) -> Outcome:
        """Iterate until `train.iterations`, an early stop, or the platform's request to stop for now."""
        self.book.start(self._precheck if self.config.train.precheck else None)
        while not self.book.is_over:
            self._iterate()
        return self.book.finish(describe(self.config, self.shape))

    def _precheck(self) -> Measured:
        """The `precheck/` metrics of the base model on a batch of its own (Table 8), and its reward matrix."""
        size = self.config.train.group_size
        batch = self.collector.precheck(self.learner.policy())
        metrics = batch_metrics(batch, size, self.config.train.prompt_metrics)
        returns = batch.returns.reshape(-1, size)
        rv_std = rv_summary(np.sqrt(spread(returns, ddof=1)))["std"]
        renamed = {name.replace("rollout/", "precheck/"): value for name, value in metrics.items()}
        return Measured(renamed | {"precheck/rv_std": rv_std}, {"rewards": np.round(returns, 6).tolist()})

    def _iterate(self) -> None:
        """One iteration of Algorithm 1."""
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
        """The `mi/` metrics (Table 1) of the batch before filtering; advances the moving averages."""
        rng = generator(SCORING, self.config.seed, step)
        pad, temperature = self.tokenizer.pad, self.config.train.temperature
        return measure(policy, batch, self.config.mi, self.book.sigma_ema, pad, temperature, rng)

    def _gradients(self, policy: Weights, step: int) -> dict[str, float]:
        """The `grad/` metrics (figure 3) at the current weights, on a batch of their own."""
        config = self.config.gradient
        batch = self.collector.gradient_probe(policy, step)
        returns = batch.returns.reshape(-1, config.group_size)
        pad = self.tokenizer.pad
        norms = partial(self.learner.gradient_norms, batch, pad=pad, together=config.halves)
        metrics = gradient_metrics(returns, config, norms)
        if config.halves:
            rng = generator(HALVES, self.config.seed, step)
            metrics |= halves_metrics(self.learner, batch, config.buckets, config.group_size, pad, rng)
        return metrics

    def _update(self, batch: Batch, kept: np.ndarray, step: int) -> dict[str, float]:
        """Update the policy on the trajectories numbered in `kept`; no update when there are none."""
        plan, metrics = update_plan(len(kept), self.config.train, self.config.filter)
        if plan.updates:
            rng = generator(UPDATING, self.config.seed, step)
            metrics |= self.learner.update(batch.select(kept), plan, rng, self.tokenizer.pad, step)
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
        assert self.heldout is not None, "asked for only where eval.heldout is above 0"
        if peak is None:
            return self._play(self.learner.policy(), self.heldout)
        parameters = peak.tensors["actor.parameters"].to(self.config.device)
        return self._play(unpack(self.shape, parameters), self.heldout)

    def _play(self, policy: Weights, instances: FixedInstances) -> Measured:
        metrics, batch = evaluate(policy, self.tokenizer, self.config, instances)
        return Measured(metrics, instance_results(batch))

    def probe(self, step: int, with_null: bool) -> Measured:
        assert self.reasoning_probe is not None, "asked for only where mi.probe is above 0"
        policy = self.learner.policy()
        reasonings = self.reasoning_probe.draw(policy, step)
        result = self.reasoning_probe.score(policy, reasonings)
        null = {"probe/retrieval_untrained": self.reasoning_probe.untrained(policy, reasonings)} if with_null else {}
        return Measured(result.metrics() | null, result.table())

    def state(self) -> State:
        return State({name: tensor.cpu() for name, tensor in self.learner.tensors().items()})

    def restore(self, step: int, state: State) -> None:
        self.learner.restore(state.tensors)
