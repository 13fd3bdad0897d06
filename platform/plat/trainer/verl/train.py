"""A run with verl from its beginning to its end: Algorithm 1 of the paper on verl's workers.

The parts of an iteration are those of `plat.trainer.embedded.train`, and their metrics have the same names. What is
different: `rollout/entropy` is estimated from the sampled tokens, because not every rollout engine gives the whole
distribution; `rollout/cut` and `mi/score_gap` are new.

    rollout/cut     share of the trajectories that ended, or lost the beginning of their prompt, for want of room
    mi/score_gap    the largest difference between the mean log-probability of a reasoning as the rollout engine gave it
                    and as the actor's workers score it under the same prompt (nats per token). It checks the scoring,
                    the weights that the engine got and the tokens' spans, whenever the proxies are measured
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plat.errors import PlatError, RunError
from plat.rl.gradient_probe import gradient_metrics
from plat.trainer.api import Outcome, RunIO, State
from plat.trainer.loop.bookkeeper import Bookkeeper
from plat.trainer.loop.instances import FixedInstances
from plat.trainer.loop.randomness import (
    GRADIENT,
    SCORING,
    SELECTING,
    TRAINING,
    UPDATING,
    generator,
    gradient_seeds,
    training_seeds,
)
from plat.trainer.loop.refill import refill
from plat.trainer.loop.selection import filter_batch, update_plan
from plat.trainer.loop.trainable import Measured
from plat.trainer.loop.trajectories import batch_metrics, instance_results
from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.cross_score import measure
from plat.trainer.verl.evaluate import evaluate
from plat.trainer.verl.extra import require
from plat.trainer.verl.model_files import ModelFiles, model_files
from plat.trainer.verl.play import Play, Played, chosen, joined
from plat.trainer.verl.probe import Probe, pairs_of, result_of
from plat.trainer.verl.running import running_trainer


def train(config: VerlRunConfig, io: RunIO) -> Outcome:
    """Train from the base model, or from `io.restore()`, to `train.iterations` or an early stop (appendix B.2)."""
    require()
    torch.set_num_threads(config.threads)
    files = model_files(config, io.cache)
    io.facts({"base_sha256": files.identity})  # before restoring: a run never goes on from another base model
    try:
        with running_trainer(config, files, io.status) as trainer:
            io.status("verl has started; the first evaluation or iteration follows")
            return _Run(config, io, trainer, files).to_the_end()
    except Exception as error:
        if io.should_stop() and not isinstance(error, PlatError):  # a scheduler asks all processes of a job at once
            raise RunError("the run's workers ended before it could save", failure_class="node") from error
        raise


class _Run:
    """One run; the rules of when something is measured, logged and saved are the book-keeper's.

    trainer       verl's workers and servers
    validation    fixed instances that are played at every evaluation; their success decides which step is the peak
    heldout       fixed instances that only the base model, the peak and the final policy play; None: `eval.heldout: 0`
    book          the book-keeper, which asks for the methods that `plat.trainer.loop.trainable.Trainable` names
    """

    def __init__(self, config: VerlRunConfig, io: RunIO, trainer: Any, files: ModelFiles) -> None:
        self.config, self.trainer, self.files = config, trainer, files
        self.validation = FixedInstances(config, "validation", config.eval.instances)
        self.heldout = FixedInstances(config, "heldout", config.eval.heldout) if config.eval.heldout else None
        self.reasoning_probe = None
        if config.mi.probe:
            self.reasoning_probe = Probe(config, self.heldout.problems() if self.heldout else set())
        self.book = Bookkeeper(config, io, self, self._write_files)

    def to_the_end(self) -> Outcome:
        """Iterate until `train.iterations`, an early stop, or the platform's request to stop for now."""
        self.book.start()
        while not self.book.is_over:
            self._iterate()
        return self.book.finish(self.files.description())

    def _iterate(self) -> None:
        """One iteration of Algorithm 1."""
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
                rng = generator(SELECTING, config.seed, step)
                selection, kept = filter_batch(learnt_from, config.filter, size, rng)
            book.add(selection.metrics())
            with book.timed("update"):
                book.add(self._update(learnt_from, kept, step))
        book.end_iteration(empty=not len(kept))

    def _rollout(self, step: int, refill: int, prompts: int) -> Played:
        """Fresh instances, as many as `prompts`, and a group of trajectories on each."""
        config = self.config
        seeds = training_seeds(config.seed, step, refill, config.train.prompts)[:prompts]
        key = (TRAINING, config.seed, step, refill)
        play = Play("train", seeds, config.train.group_size, key, config.train.temperature, config.task.turns)
        return self.trainer.play(play, step)  # type: ignore[no-any-return]

    def _replace_uninformative(self, batch: Played, step: int) -> tuple[Played, dict[str, float]]:
        """DAPO's dynamic sampling, with a bound: prompts whose returns are all equal give way to fresh ones."""
        train, max_refills = self.config.train, self.config.algorithm.max_refills

        def roll_out(number: int, prompts: int) -> Played:
            return self._rollout(step, refill=number, prompts=prompts)

        batches, kept, metrics = refill(batch, roll_out, train.prompts, train.group_size, max_refills)
        together = joined(batches)
        self.trainer.forget(together.keys_of_others(kept))
        return chosen(together, kept), metrics

    def _mutual_information(self, batch: Played, step: int) -> dict[str, float]:
        """The `mi/` metrics (Table 1) of the batch before refills and filter; advances the moving averages."""
        rng = generator(SCORING, self.config.seed, step)
        return measure(batch, self.config.mi, self.book.sigma_ema, rng, self.trainer.log_likelihoods)

    def _play_gradient_probe(self, step: int) -> Played:
        """The batch of a gradient probe: instances of the training split that the run does not train on."""
        config, probe = self.config, self.config.gradient
        seeds, key = gradient_seeds(config.seed, step, probe.prompts), (GRADIENT, config.seed, step)
        play = Play("train", seeds, probe.group_size, key, config.train.temperature, config.task.turns)
        return self.trainer.play(play, step)  # type: ignore[no-any-return]

    def _gradients(self, probed: Played) -> dict[str, float]:
        """The `grad/` metrics (figure 3) at the current weights."""
        returns = probed.returns.reshape(-1, self.config.gradient.group_size)
        norms = partial(self.trainer.gradient_norms, probed)
        return gradient_metrics(returns, self.config.gradient, norms)

    def _update(self, batch: Played, kept: np.ndarray, step: int) -> dict[str, float]:
        """Update the policy on the trajectories numbered in `kept`; no update when there are none."""
        plan, metrics = update_plan(len(kept), self.config.train, self.config.filter)
        self.trainer.forget(batch.keys_of_others(kept))
        if plan.updates:
            rng = generator(UPDATING, self.config.seed, step)
            metrics |= self.trainer.update(chosen(batch, kept), plan, step, rng)
        return metrics

    # --- what the book-keeper asks for --------------------------------------------------------------------------------

    def validate(self) -> Measured:
        return self._evaluate(self.validation)

    def evaluate_heldout(self, peak: State | None) -> Measured:
        assert self.heldout is not None, "asked for only where eval.heldout is above 0"
        if peak is not None:
            self._load(peak, self.trainer.global_steps)
        return self._evaluate(self.heldout)

    def _evaluate(self, instances: FixedInstances) -> Measured:
        metrics, batch = evaluate(self.trainer, self.config, instances)
        return Measured(metrics, instance_results(batch))

    def probe(self, step: int, with_null: bool) -> Measured:
        assert self.reasoning_probe is not None, "asked for only where mi.probe is above 0"
        played = self.trainer.play(self.reasoning_probe.play(step), step, "val")
        with self.trainer.without_rollout():
            scores = self.trainer.log_likelihoods(pairs_of(played))
        result = result_of(played, scores)
        return Measured(result.metrics(), result.table())

    def state(self) -> State:
        return State({})  # everything is in the files that `_write_files` writes

    def _write_files(self, folder: Path) -> None:
        self.trainer.save(folder, self.trainer.global_steps)

    def restore(self, step: int, state: State) -> None:
        self._load(state, step)

    def _load(self, state: State, step: int) -> None:
        if state.files is None:
            raise RunError("a checkpoint of verl has files, and this one has none", mend="delete that checkpoint")
        self.trainer.load(state.files, step)
