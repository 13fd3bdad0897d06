"""A run with verl from start to end: Algorithm 1 of the paper on verl's workers.

The parts of an iteration and their metrics are those of `plat_rl.embedded.train`, with these differences:
`rollout/entropy` is estimated from the sampled tokens, because not every rollout engine gives the whole distribution;
two metrics are new.

    rollout/cut     share of trajectories that ended, or lost the beginning of their prompt, because a limit of tokens
                    was reached
    mi/score_gap    largest difference between the mean log-probability of a reasoning from the rollout engine and from
                    the actor's workers under the same prompt (nats per token); checks the scoring, the engine's
                    weights and the tokens' spans, whenever the proxies are measured
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plat.errors import CheckpointError, PlatError, RunError
from plat.extras import require_extra
from plat.trainer.api import Outcome, RunIO, State
from plat_rl.environments import Sessions, facts_of_task
from plat_rl.loop import randomness
from plat_rl.loop.bookkeeper import Bookkeeper
from plat_rl.loop.prompt_selection import filter_batch, refill, update_plan
from plat_rl.loop.randomness import (
    EVALUATION,
    GRADIENT,
    PROBE,
    SCORING,
    SELECTING,
    TRAINING,
    UPDATING,
    FixedInstances,
    Key,
    chosen_instances,
    probe_instances,
)
from plat_rl.loop.trainable import Measured
from plat_rl.loop.trajectory_table import batch_metrics, evaluation_metrics, instance_results
from plat_rl.rl.gradient_probe import gradient_metrics
from plat_rl.verl.machines.private_cluster import running_trainer
from plat_rl.verl.rollouts.play import Play, Played, chosen, joined
from plat_rl.verl.rollouts.verl_cross_score import block_pairs, block_result, measure
from plat_rl.verl.settings.models import ModelFiles, model_files, workers
from plat_rl.verl.settings.verl_config import VerlRunConfig

# Evaluation on fixed instances by verl's rollout engine, and `plat eval` of a checkpoint.


def evaluate(trainer: Any, config: VerlRunConfig, instances: FixedInstances) -> tuple[dict[str, float], Played]:
    """Play each instance once at `eval.temperature`; return metrics (`evaluation_metrics`) and trajectories.

    trainer   a `plat_rl.verl.update.trainer.Trainer` whose rollout has the policy's weights

    Random numbers are a function of `eval.seed`, the split and the instance's number.
    """
    key = (EVALUATION, config.eval.seed, instances.split)
    play = Play(instances.split, instances.seeds, 1, key, config.eval.temperature, config.task.turns)
    batch = trainer.play(play, trainer.global_steps, "val")
    return evaluation_metrics(batch), batch


def evaluate_checkpoint(
    config: VerlRunConfig, state: State, cache: Path, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return split, instances (their number), the metrics by name, and results of a checkpoint's policy (`plat eval`).

    `overrides` are those of `chosen_instances`; results as in the embedded trainer. Starts verl's actor and rollout
    with as many processes as wrote the checkpoint. Raises CheckpointError if `state` has no files.
    """
    require_extra("verl", "the trainer verl", "trainer")
    instances = chosen_instances(config, overrides)
    if state.files is None:
        raise CheckpointError("a checkpoint of verl has files, and this one has none")
    os.environ.setdefault("RAY_LOG_TO_DRIVER", "0")  # read when Ray is imported: keep workers' output from results
    # Without critic and reference policy, with the same number of processes.
    algorithm = replace(config.algorithm, advantage="grpo", kl_coef=0.0)
    config = replace(config, algorithm=algorithm, verl=replace(config.verl, workers=workers(config)))
    with running_trainer(config, model_files(config, cache)) as trainer:
        trainer.load(state.files, 0)
        metrics, batch = evaluate(trainer, config, instances)
    return {"split": instances.split, "instances": len(instances), **metrics, "results": instance_results(batch)}


def train(config: VerlRunConfig, io: RunIO) -> Outcome:
    """Train from the base model, or from `io.restore()`, to `train.iterations`, an early stop or `io.should_stop()`.

    Raises SpecError without verl, and RunError (class node) if the workers end after the platform asked to stop.
    """
    require_extra("verl", "the trainer verl", "trainer")
    torch.set_num_threads(config.threads)
    files = model_files(config, io.cache)
    io.facts(
        {"base_sha256": files.identity, **facts_of_task(config)}
    )  # before restoring: a run never resumes from another base model
    try:
        with running_trainer(config, files, io.status) as trainer:
            io.status("verl has started; the first evaluation or iteration follows")
            return _Run(config, io, trainer, files).to_the_end()
    except Exception as error:
        if io.should_stop() and not isinstance(error, PlatError):  # a scheduler asks all processes of a job at once
            raise RunError("the run's workers ended before it could save", failure_class="node") from error
        raise


class _Run:
    """One run, as in `plat_rl.embedded.train`; `trainer` has verl's workers and servers."""

    def __init__(self, config: VerlRunConfig, io: RunIO, trainer: Any, files: ModelFiles) -> None:
        self.config, self.trainer, self.files = config, trainer, files
        self.sessions = Sessions(config)
        self.validation = FixedInstances(config, "validation", config.eval.instances, self.sessions)
        self.heldout = FixedInstances(config, "heldout", config.eval.heldout, self.sessions)
        self.book = Bookkeeper(config, io, self, self._write_files)

    def to_the_end(self) -> Outcome:
        """Iterate until `train.iterations`, an early stop, or the platform's request to stop for now."""
        self.book.start()
        while not self.book.is_over:
            self._iterate()
        return self.book.finish(self.files.description)

    def _iterate(self) -> None:
        """Do one iteration: rollout, refill, measurements at the old weights, filter, update, and the book-keeping."""
        book, config = self.book, self.config
        size = config.train.group_size
        step = self.trainer.global_steps = book.begin_iteration()
        with book.timed("rollout"):
            batch = self._rollout(step, refill=0, prompts=config.train.prompts)
        metrics = batch_metrics(batch, size, config.train.prompt_metrics) | {"rollout/cut": float(batch.cut.mean())}
        book.rolled_out(batch.returns.reshape(-1, size), metrics)
        learnt_from = batch
        if config.algorithm.dynamic_sampling:
            with book.timed("refill"):
                learnt_from, refill_metrics = self._replace_uninformative(batch, step)
                book.add(refill_metrics)
        probed = self._play_gradient_probe(step) if book.measures_gradients else None
        with self.trainer.without_rollout():
            if book.measures_mutual_information:
                with book.timed("cross_score"):
                    book.add(self._mutual_information(batch, step))
            if probed is not None:
                with book.timed("gradient"):
                    book.add(self._gradients(probed))
            with book.timed("filter"):
                rng = randomness.generator(SELECTING, config.seed, step)
                selection, kept = filter_batch(learnt_from, config.filter, size, rng)
            book.add(selection.metrics())
            with book.timed("update"):
                book.add(self._update(learnt_from, kept, step))
        book.end_iteration(empty=not len(kept))

    def _rollout(self, step: int, refill: int, prompts: int) -> Played:
        """Play `prompts` fresh instances with a group of trajectories each."""
        config = self.config
        seeds = randomness.training_seeds(config.seed, step, refill, config.train.prompts)[:prompts]
        return self._play(seeds, config.train.group_size, (TRAINING, config.seed, step, refill))

    def _play(self, seeds: range, group_size: int, key: Key) -> Played:
        config, step = self.config, self.trainer.global_steps
        play = Play("train", seeds, group_size, key, config.train.temperature, config.task.turns)
        return self.trainer.play(play, step)  # type: ignore[no-any-return]

    def _replace_uninformative(self, batch: Played, step: int) -> tuple[Played, dict[str, float]]:
        """Replace prompts whose returns are all equal by fresh ones (DAPO's dynamic sampling, bounded)."""
        batches, kept, metrics = refill(batch, partial(self._rollout, step), self.config)
        together = joined(batches)
        self.trainer.forget(together.keys_of_others(kept))
        return chosen(together, kept), metrics

    def _mutual_information(self, batch: Played, step: int) -> dict[str, float]:
        """Return the `mi/` metrics (Table 1) of the batch before refills and filter; advance the moving averages."""
        rng = randomness.generator(SCORING, self.config.seed, step)
        return measure(batch, self.config.mi, self.book.progress.sigma_ema, rng, self.trainer.log_likelihoods)

    def _play_gradient_probe(self, step: int) -> Played:
        """Play the batch of a gradient probe: instances of the training split that the run does not train on."""
        seed, probe = self.config.seed, self.config.gradient
        return self._play(
            randomness.gradient_seeds(seed, step, probe.prompts), probe.group_size, (GRADIENT, seed, step)
        )

    def _gradients(self, probed: Played) -> dict[str, float]:
        """Return the `grad/` metrics (figure 3) at the current weights."""
        returns = probed.returns.reshape(-1, self.config.gradient.group_size)
        norms = partial(self.trainer.gradient_norms, probed)
        return gradient_metrics(returns, self.config.gradient, norms)

    def _update(self, batch: Played, kept: np.ndarray, step: int) -> dict[str, float]:
        """Update the policy on the trajectories numbered in `kept`, if there are any. Return the metrics."""
        plan, metrics = update_plan(len(kept), self.config.train, self.config.filter)
        self.trainer.forget(batch.keys_of_others(kept))
        if plan.updates:
            rng = randomness.generator(UPDATING, self.config.seed, step)
            metrics |= self.trainer.update(chosen(batch, kept), plan, step, rng)
        return metrics

    # --- what the book-keeper asks for --------------------------------------------------------------------------------

    def validate(self) -> Measured:
        return self._evaluate(self.validation)

    def evaluate_heldout(self, peak: State | None) -> Measured:
        if peak is not None:
            self.restore(self.trainer.global_steps, peak)
        return self._evaluate(self.heldout)

    def _evaluate(self, instances: FixedInstances) -> Measured:
        metrics, batch = evaluate(self.trainer, self.config, instances)
        return Measured(metrics, instance_results(batch))

    def probe(self, step: int, with_null: bool) -> Measured:
        config = self.config
        with self.sessions.lease("heldout", 1) as (environment,):
            seeds = probe_instances(environment, config, step, self.heldout.problems)
        key = (PROBE, config.seed, step)
        played = self.trainer.play(Play("heldout", seeds, 1, key, config.train.temperature, turns=1), step, "val")
        with self.trainer.without_rollout():
            scores = self.trainer.log_likelihoods(block_pairs(played))
        result = block_result(played, scores)
        return Measured(result.metrics(), result.table())

    def state(self) -> State:
        return State({})  # everything is in the files that `_write_files` writes

    def _write_files(self, folder: Path) -> None:
        self.trainer.save(folder, self.trainer.global_steps)

    def restore(self, step: int, state: State) -> None:
        if state.files is None:
            raise RunError("a checkpoint of verl has files, and this one has none", fix="delete that checkpoint")
        self.trainer.load(state.files, step)
