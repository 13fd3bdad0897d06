"""The training loop: reinforcement learning on filtered batches (Algorithm 1 of the paper), and what it measures.

The policy is a language model that plays text games. It answers each prompt (the state of a game) with a reasoning,
between think tags, and then with actions. An iteration (`_Run._iterate`) has these parts:

    rollout       the policy plays P training instances, G times each (`collect`). The G trajectories of one instance
                  are a group; the return of a trajectory is the sum of its rewards
    cross_score   every `mi.every` iterations: how much the reasonings tell about their prompts, measured on the whole
                  batch before anything is dropped from it (`cross_score`, Table 1)
    refill        with `algorithm.dynamic_sampling` (DAPO): instances whose G returns are all equal teach nothing and
                  are replaced, as far as `max_refills` more rollouts find others (`collect`)
    filter        each instance gets a score, usually the spread of its G returns, and only the best are kept, each with
                  all of its G trajectories, or with a part of them under `within_group` (`filtering`, section 4). With
                  `filter=none` all are kept
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
step) alone (`randomness`), so a run that is resumed from a checkpoint has the same bits as an undisturbed one.
"""

from __future__ import annotations

import math
import os
import resource
from typing import Any

import numpy as np
import torch

from plat.errors import RunError
from plat.rl.early_stop import EarlyStops
from plat.rl.filter import step_plan
from plat.rl.mutual_information import SigmaEMA, is_measured
from plat.trainer.api import Outcome, RunIO, State
from plat.trainer.config import RunConfig
from plat.trainer.embedded.base_model.load import describe, load_base
from plat.trainer.embedded.batch import Batch
from plat.trainer.embedded.collect import Collector, batch_metrics
from plat.trainer.embedded.cross_score import measure
from plat.trainer.embedded.evaluate import FixedInstances, evaluate, instance_results
from plat.trainer.embedded.filtering import filter_batch
from plat.trainer.embedded.learner import Learner
from plat.trainer.embedded.probe import Probe
from plat.trainer.embedded.progress import Progress, Stopwatch, read_progress, state_of
from plat.trainer.embedded.randomness import SCORING, SELECTING, UPDATING, generator
from plat.trainer.embedded.transformer.model import Weights, unpack


def train(config: RunConfig, io: RunIO) -> Outcome:
    """Train from the base model, or from `io.restore()`, to `train.iterations` or an early stop (appendix B.2)."""
    torch.set_num_threads(config.threads)
    if config.device == "cuda":  # for the same bits after a resume; CUDA reads the variable when it starts
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
    return _Run(config, io).to_the_end()


class _Run:
    """One run.

    learner       the policy, its optimiser and, for PPO, the critic
    collector     plays the training instances
    validation    fixed instances that are played at every evaluation; their success decides which step is the peak
    heldout       fixed instances that only the base model, the peak and the final policy play; None: `eval.heldout: 0`
    probe         the reasoning probe; None: `mi.probe: 0`
    stops         the early stops of appendix B.2 with their counts
    sigma_ema     moving averages that the z-scores of mutual information are divided by
    progress      the step that is done, and the peak so far
    """

    def __init__(self, config: RunConfig, io: RunIO) -> None:
        self.config, self.io = config, io
        base = load_base(config, io.cache)
        io.facts({"base_sha256": base.sha256})  # before restoring: a run never goes on from another base model
        self.shape, self.tokenizer = base.shape, base.tokenizer
        self.learner = Learner(config, self.shape, base.parameters)
        self.collector = Collector(config, self.tokenizer)
        self.validation = FixedInstances(config, "validation", config.eval.instances)
        self.heldout = FixedInstances(config, "heldout", config.eval.heldout) if config.eval.heldout else None
        self.probe = None
        if config.mi.probe:
            self.probe = Probe(config, self.tokenizer, self.heldout.problems() if self.heldout else set())
        self.stops = EarlyStops(config.early_stop)
        self.sigma_ema = SigmaEMA(config.mi.ema_alpha)
        self.progress = Progress()
        self.stopwatch = Stopwatch()

    def to_the_end(self) -> Outcome:
        """Iterate until `train.iterations`, an early stop, or the platform's request to stop for now."""
        checkpoint = self.io.restore()
        if checkpoint is None:
            self._evaluate_base_model()
        else:
            self._resume(*checkpoint)
        reason = self.stops.reason
        while reason is None and self.progress.step < self.config.train.iterations:
            reason = self._iterate(self.progress.step + 1)
            if reason is None and self.io.should_stop():
                self._save()
                return Outcome("interrupted")
        self._evaluate_peak_and_final()
        return Outcome("finished" if reason is None else f"stopped:{reason}", self._summary())

    # --- one iteration ------------------------------------------------------------------------------------------------

    def _iterate(self, step: int) -> str | None:
        """Do iteration `step`, log it and save checkpoints; returns the reason to stop early, or None."""
        config, timed = self.config, self.stopwatch.timed
        self.stopwatch.restart()
        policy = self.learner.policy()
        with timed("rollout"):
            batch = self.collector.rollout(policy, step)
        self.io.table("reward_matrix", step, np.round(self._returns(batch), 6).tolist())
        metrics = batch_metrics(batch, config.train.group_size)
        reward_variance = metrics["rollout/reward_var"]  # within the groups, before refills and filter, as in the paper
        if is_measured(step, config.mi):
            with timed("cross_score"):
                metrics |= self._mutual_information(policy, batch, step)
        if config.algorithm.dynamic_sampling:
            with timed("refill"):
                batch, refill_metrics = self.collector.replace_uninformative(policy, batch, step)
                metrics |= refill_metrics
        with timed("filter"):
            rng = generator(SELECTING, config.seed, step)
            selection, kept_trajectories = filter_batch(batch, config.filter, config.train.group_size, rng)
        metrics |= selection.metrics()
        with timed("update"):
            metrics |= self._update(batch, kept_trajectories, step)
        self.progress.step = step
        reason = self.stops.iteration(reward_variance, empty=not len(kept_trajectories))
        must_evaluate = step % config.eval.every == 0 or step == config.train.iterations or reason is not None
        is_peak = False
        if must_evaluate:
            is_peak = self._evaluate(step, metrics)
            reason = self.stops.evaluation(metrics["val/success"]) or reason  # an evaluation may stop the run, too
        is_last = step == config.train.iterations or reason is not None
        if is_last or step % (config.eval.every * config.mi.probe_every) == 0:
            metrics |= self._probe(step)
        metrics |= self.stopwatch.metrics()
        metrics["mem/peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self.io.log(step, metrics)
        if is_peak or is_last or step % config.train.checkpoint_every == 0:
            self._save(peak=is_peak)
        return reason

    def _returns(self, batch: Batch) -> np.ndarray:
        """The returns of a whole batch as the paper's reward matrix (P, G)."""
        return batch.returns.reshape(-1, self.config.train.group_size)

    def _mutual_information(self, policy: Weights, batch: Batch, step: int) -> dict[str, float]:
        """The `mi/` metrics (Table 1) of the batch before filtering; advances the moving averages."""
        rng = generator(SCORING, self.config.seed, step)
        pad, temperature = self.tokenizer.pad, self.config.train.temperature
        return measure(policy, batch, self.config.mi, self.sigma_ema, pad, temperature, rng)

    def _update(self, batch: Batch, kept: np.ndarray, step: int) -> dict[str, float]:
        """Update the policy on the trajectories numbered in `kept`; no update when there are none.

        `filter/loss_scale` is the product of the three scales of the plan, of which at most one differs from 1.
        """
        train = self.config.train
        plan = step_plan(len(kept), train.prompts * train.group_size, self.config.filter, train.mini_batches)
        metrics = {
            "filter/loss_scale": plan.loss_scale * plan.advantage_scale * plan.lr_scale,
            "filter/updates": float(plan.updates),
        }
        if plan.updates:
            rng = generator(UPDATING, self.config.seed, step)
            metrics |= self.learner.update(batch.select(kept), plan, rng, self.tokenizer.pad, step)
        return metrics

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def _evaluate_base_model(self) -> None:
        """Step 0: the base model plays the validation and the held-out instances, and is probed."""
        metrics = self._probe(0)
        self._evaluate(0, metrics)
        metrics |= self._evaluate_heldout(0, self.learner.policy(), "base")
        self.stops.evaluation(metrics["val/success"])
        self.io.log(0, metrics)
        self._save(peak=True)

    def _evaluate(self, step: int, metrics: dict[str, float]) -> bool:
        """Evaluate the policy and add its `val/` metrics; True when it is a new peak (ties are not)."""
        policy = self.learner.policy()
        with self.stopwatch.timed("eval"):
            validation, batch = evaluate(policy, self.tokenizer, self.config, self.validation)
        metrics |= {f"val/{name}": value for name, value in validation.items()}
        self.io.table("val_instances", step, instance_results(batch))
        success = validation["success"]
        if not math.isfinite(success):
            raise RunError("validation success is not a number", failure_class="nan")
        if success <= self.progress.best_success:
            return False
        self.progress.best_success, self.progress.best_step = success, step
        return True

    def _probe(self, step: int) -> dict[str, float]:
        """The `probe/` metrics of fresh reasonings; at step 0 with the null, the same of an untrained model."""
        if self.probe is None:
            return {}
        policy = self.learner.policy()
        with self.stopwatch.timed("probe"):
            reasonings = self.probe.draw(policy, step)
            result = self.probe.score(policy, reasonings)
            self.io.table("probe", step, result.table())
            null = {"probe/retrieval_untrained": self.probe.untrained(policy, reasonings)} if step == 0 else {}
        return result.metrics() | null

    def _evaluate_peak_and_final(self) -> None:
        """The peak and the final policy play the held-out instances, if there are any; logged at the last step."""
        if self.heldout is None:
            return
        step, peak_step = self.progress.step, self.progress.best_step
        final = self.learner.policy()
        metrics = {"heldout/peak_step": float(peak_step)}
        if peak_step == step:
            metrics |= self._evaluate_heldout(step, final, "peak", "final")
        else:
            metrics |= self._evaluate_heldout(step, self._load_peak(peak_step), "peak") | self._evaluate_heldout(
                step, final, "final"
            )
        self.io.log(step, metrics)

    def _load_peak(self, peak_step: int) -> Weights:
        """The policy of the peak checkpoint; RunError when that checkpoint is lost, because no other may stand in."""
        checkpoint = self.io.load_peak()
        if checkpoint is None or checkpoint[0] != peak_step:
            remaining = "none is left" if checkpoint is None else f"the newest that is left is of step {checkpoint[0]}"
            raise RunError(
                f"the peak checkpoint of step {peak_step} is gone or damaged ({remaining})",
                mend="delete this run's folder and run it again: a peak cannot be evaluated without its weights",
            )
        return unpack(self.shape, checkpoint[1].tensors["actor.parameters"].to(self.config.device))

    def _evaluate_heldout(self, step: int, policy: Weights, *roles: str) -> dict[str, float]:
        """Held-out success of a policy under each of its roles (base, peak, final); {} when nothing is held out."""
        if self.heldout is None:
            return {}
        evaluation, batch = evaluate(policy, self.tokenizer, self.config, self.heldout)
        results = instance_results(batch) | {"peak_step": self.progress.best_step}
        for role in roles:
            self.io.table(f"heldout_{role}", step, results | {"role": role})
        names = {"base": "heldout/base_success", "peak": "heldout/success", "final": "heldout/final_success"}
        return {names[role]: evaluation["success"] for role in roles}

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def _save(self, peak: bool = False) -> None:
        """Write a checkpoint from which `_resume` goes on with the same bits."""
        self.progress.early_stop = self.stops.to_dict()
        self.progress.sigma_ema = self.sigma_ema.to_dict()
        self.io.save(self.progress.step, state_of(self.learner, self.progress), peak=peak)

    def _resume(self, step: int, state: State) -> None:
        """Go on from a checkpoint: what is not restored here is a function of the config and the step."""
        self.progress = read_progress(step, state)
        self.learner.restore(state.tensors)
        self.stops = EarlyStops.from_dict(self.config.early_stop, self.progress.early_stop)
        self.sigma_ema = SigmaEMA.from_dict(self.config.mi.ema_alpha, self.progress.sigma_ema)

    def _summary(self) -> dict[str, Any]:
        """What result.json and the store say of the finished run: the model that ran, and its peak."""
        return describe(self.config, self.shape) | {
            "peak_step": self.progress.best_step,
            "peak_success": self.progress.best_success,
        }
