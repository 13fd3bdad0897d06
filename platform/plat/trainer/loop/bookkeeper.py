"""The order of a run around its algorithm: what is measured when, logged when, saved when, and when the run ends.

The book-keeper knows the rules and the trainer knows the policy. The trainer implements `Trainable`, tells the
book-keeper what an iteration gave, and is asked to evaluate, probe and hand over its state when a rule says so.

Step s is the policy after s iterations; step 0 is the base model. The rules:

    precheck     at step 0, where the trainer hands over how
    evaluation   at step 0, every `eval.every` iterations, at the last one and when a run stops early. The success on
                 the validation instances decides which step is the peak: the highest, the earliest of equal ones
    probe        at step 0, at every `mi.probe_every`th evaluation and at the last step
    mi proxies   at step 1 and every `mi.every` iterations, on the batch before anything is dropped from it
    gradients    at step 1 and every `gradient.every` iterations after it, or `gradient.times` times from the first
                 iteration to the last, on a batch of its own, before the update
    held-out     the base model at step 0; the peak and the final policy when the run ends
    early stops  those of appendix B.2 (`plat.rl.early_stop`), after each iteration and each evaluation
    checkpoint   at step 0, at every peak, every `train.checkpoint_every` iterations, at the last step, and when the
                 platform wants the process back
    log          one event per step, after everything of the step was measured and before its checkpoint

**A trainer that owns its loop:**

    book = Bookkeeper(config, io, self)
    book.start()                                    # goes on from a checkpoint, or measures the base model
    while not book.is_over:
        step = book.begin_iteration()
        with book.timed("rollout"):
            ...
        book.rolled_out(returns, metrics)
        if book.measures_mutual_information:
            book.add(...)
        ...                                         # filter and update, whose metrics are added in this order
        book.end_iteration(empty=not len(kept))
    return book.finish(description_of_the_model)

**A trainer whose loop belongs to a library** calls the same methods from the library's hooks. Below verl's own `fit()`,
for example, which the trainer with verl does not need because it calls verl's stages one by one:

    before the loop                 book.start(); the library's own step counter is set to `book.progress.step`
    on_step_begin                   book.begin_iteration()
    when the rewards are there      book.rolled_out(returns, metrics) with all prompts of the batch, in `_balance_batch`
    before rows are dropped         cross-scoring where book.measures_mutual_information, with `book.sigma_ema`
    the last hook of a step,        book.add(the library's own metrics); book.end_iteration(empty=...). The rollout
      weights synchronised          must answer with the updated policy by then, because this is where it is evaluated
    after end_iteration             leave the loop when book.is_over
    after the loop                  return book.finish(...)

The library's own evaluation, checkpoint rhythm and logger stay off: each of these rules exists here only.
"""

from __future__ import annotations

import math
import resource
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat.errors import RunError
from plat.rl import gradient_probe
from plat.rl.early_stop import EarlyStops
from plat.rl.mutual_information import SigmaEMA, is_measured
from plat.trainer.api import Outcome, RunIO, State, WriteFiles
from plat.trainer.config import RunConfig
from plat.trainer.loop.progress import Progress, Stopwatch, read_progress, with_progress
from plat.trainer.loop.trainable import Measured, Trainable


class Bookkeeper:
    """The book-keeper of one run; see the module for who calls what.

    progress    the step that is done, and the peak so far
    stops       the early stops of appendix B.2 with their counts
    sigma_ema   moving averages that the z-scores of mutual information are divided by
    metrics     what the iteration that is going on has given so far, in the order in which it is logged

    write_files   None, or what writes that part of the trainer's state which is too large to pass through memory, see
                  `RunIO.save`; it is `State.files` of the state that is restored
    """

    def __init__(
        self, config: RunConfig, io: RunIO, trainable: Trainable, write_files: WriteFiles | None = None
    ) -> None:
        self.config, self.io, self.trainable, self.write_files = config, io, trainable, write_files
        self.progress = Progress()
        self.stops = EarlyStops(config.early_stop)
        self.sigma_ema = SigmaEMA(config.mi.ema_alpha)
        self.metrics: dict[str, float] = {}
        self.stopwatch = Stopwatch()
        self.reason: str | None = None  # of an early stop
        self.is_interrupted = False

    def start(self, precheck: Callable[[], Measured] | None = None) -> None:
        """Go on from the newest checkpoint; without one, measure and save the base model.

        precheck   plays a batch with the base model for `train.precheck`: metrics with their prefix, and as table the
                   reward matrix
        """
        checkpoint = self.io.restore()
        if checkpoint is None:
            self._measure_base_model(precheck)
        else:
            self._go_on_from(*checkpoint)
        self.reason = self.stops.reason

    @property
    def is_over(self) -> bool:
        """Whether there is no further iteration, for whatever reason."""
        return self.is_interrupted or self.reason is not None or self.progress.step >= self.config.train.iterations

    # --- one iteration ------------------------------------------------------------------------------------------------

    def begin_iteration(self) -> int:
        """Start the clock of the next iteration; returns its step."""
        self.metrics = {}
        self.stopwatch.restart()
        return self.step

    @property
    def step(self) -> int:
        """The step of the iteration that is going on."""
        return self.progress.step + 1

    def timed(self, part: str) -> AbstractContextManager[None]:
        """A block whose seconds are logged as `time/<part>`."""
        return self.stopwatch.timed(part)

    def add(self, metrics: Mapping[str, float]) -> None:
        """More metrics of the iteration that is going on."""
        self.metrics |= metrics

    def rolled_out(self, returns: NDArray[np.float64], metrics: Mapping[str, float]) -> None:
        """The batch of the iteration, before refills and before the filter.

        returns   (P, G) summed rewards of each trajectory: the paper's reward matrix, which is kept as a table
        metrics   of the batch (`plat.trainer.loop.trajectories.batch_metrics`); the early stop on reward variance goes
                  by `rollout/reward_var`
        """
        self.io.table("reward_matrix", self.step, np.round(returns, 6).tolist())
        self.add(metrics)

    @property
    def measures_mutual_information(self) -> bool:
        """Whether the iteration that is going on scores reasonings under each other's prompts."""
        return is_measured(self.step, self.config.mi)

    @property
    def measures_gradients(self) -> bool:
        """Whether the gradient is probed in the iteration that is going on, before its update."""
        return gradient_probe.is_measured(self.step, self.config.gradient, self.config.train.iterations)

    def end_iteration(self, empty: bool) -> None:
        """After the update: evaluate and probe where it is time, log the step, save, and see whether the run is over.

        empty   nothing was kept to learn from, and no update was made
        """
        config, step = self.config, self.step
        self.progress.step = step
        reason = self.stops.iteration(self.metrics["rollout/reward_var"], empty=empty)
        is_peak = False
        if step % config.eval.every == 0 or step == config.train.iterations or reason is not None:
            is_peak = self._evaluate()
            reason = self.stops.evaluation(self.metrics["val/success"]) or reason  # an evaluation may stop the run, too
        is_last = step == config.train.iterations or reason is not None
        if is_last or step % (config.eval.every * config.mi.probe_every) == 0:
            self._probe()
        self.add(self.stopwatch.metrics())
        self.add({"mem/peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024})
        self.io.log(step, self.metrics)
        is_saved = is_peak or is_last or step % config.train.checkpoint_every == 0
        if is_saved:
            self._save(is_peak)
        self.reason = reason
        if reason is None and self.io.should_stop():
            self.is_interrupted = True
            if not is_saved:
                self._save()

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self, description: Mapping[str, Any]) -> Outcome:
        """How the run ended; before, unless it is only interrupted, peak and final policy play the held-out instances.

        description   what the summary says of the model that really ran
        RunError when the trainer's loop ended although the run is not over.
        """
        if not self.is_over:
            raise RunError(
                f"the trainer ended its loop after {self.progress.step} of {self.config.train.iterations} iterations",
                mend="this is a mistake in the trainer: it must iterate until the run is over",
            )
        if self.is_interrupted:
            return Outcome("interrupted")
        self._evaluate_peak_and_final()
        peak = {"peak_step": self.progress.best_step, "peak_success": self.progress.best_success}
        return Outcome("finished" if self.reason is None else f"stopped:{self.reason}", {**description, **peak})

    # --- measurements -------------------------------------------------------------------------------------------------

    def _measure_base_model(self, precheck: Callable[[], Measured] | None) -> None:
        """Step 0: the base model plays the validation and the held-out instances, and is probed."""
        self.metrics = {}
        if precheck is not None:
            measured = precheck()
            self.io.table("precheck", 0, dict(measured.table))
            self.add(measured.metrics)
        self._probe()
        self._evaluate()
        if self.config.eval.heldout:
            heldout = self.trainable.evaluate_heldout(None)
            self._record_heldout("base", heldout)
            self.add({"heldout/base_success": heldout.metrics["success"]})
        self.stops.evaluation(self.metrics["val/success"])
        self.io.log(0, self.metrics)
        self._save(peak=True)

    def _evaluate(self) -> bool:
        """Evaluate the policy and add its `val/` metrics; True when it is a new peak (ties are not)."""
        with self.timed("eval"):
            validation = self.trainable.validate()
        self.add({f"val/{name}": value for name, value in validation.metrics.items()})
        self.io.table("val_instances", self.progress.step, dict(validation.table))
        for name, table in validation.further.items():
            self.io.table(name, self.progress.step, table)
        success = validation.metrics["success"]
        if not math.isfinite(success):
            raise RunError("validation success is not a number", failure_class="nan")
        if success <= self.progress.best_success:
            return False
        self.progress.best_success, self.progress.best_step = success, self.progress.step
        return True

    def _probe(self) -> None:
        """Add the `probe/` metrics of fresh reasonings, at step 0 with the null; nothing where `mi.probe` is 0."""
        if not self.config.mi.probe:
            return
        step = self.progress.step
        with self.timed("probe"):
            probed = self.trainable.probe(step, with_null=step == 0)
        self.io.table("probe", step, dict(probed.table))
        self.add(probed.metrics)

    def _evaluate_peak_and_final(self) -> None:
        """The peak and the final policy play the held-out instances, if there are any; logged at the last step."""
        if not self.config.eval.heldout:
            return
        step, peak_step = self.progress.step, self.progress.best_step
        checkpoint = None if peak_step == step else self._peak_checkpoint()
        final = self.trainable.evaluate_heldout(None)
        peak = final if checkpoint is None else self.trainable.evaluate_heldout(checkpoint)
        self._record_heldout("peak", peak)
        self._record_heldout("final", final)
        success = {"heldout/success": peak.metrics["success"], "heldout/final_success": final.metrics["success"]}
        self.io.log(step, {"heldout/peak_step": float(peak_step), **success})

    def _peak_checkpoint(self) -> State:
        """The state at the peak; RunError when that checkpoint is lost, because no other may stand in."""
        peak_step, checkpoint = self.progress.best_step, self.io.load_peak()
        if checkpoint is None or checkpoint[0] != peak_step:
            remaining = "none is left" if checkpoint is None else f"the newest that is left is of step {checkpoint[0]}"
            raise RunError(
                f"the peak checkpoint of step {peak_step} is gone or damaged ({remaining})",
                mend="delete this run's folder and run it again: a peak cannot be evaluated without its weights",
            )
        return read_progress(*checkpoint)[1]

    def _record_heldout(self, role: str, measured: Measured) -> None:
        """Keep the held-out results of a policy, in its role of base, peak or final, as a table."""
        table = {**measured.table, "peak_step": self.progress.best_step, "role": role}
        self.io.table(f"heldout_{role}", self.progress.step, table)

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def _save(self, peak: bool = False) -> None:
        """Write a checkpoint from which `_go_on_from` goes on with the same bits."""
        self.progress.early_stop = self.stops.to_dict()
        self.progress.sigma_ema = self.sigma_ema.to_dict()
        state = with_progress(self.trainable.state(), self.progress)
        self.io.save(self.progress.step, state, peak=peak, write_files=self.write_files)

    def _go_on_from(self, step: int, state: State) -> None:
        self.progress, own = read_progress(step, state)
        self.trainable.restore(step, own)
        self.stops = EarlyStops.from_dict(self.config.early_stop, self.progress.early_stop)
        self.sigma_ema = SigmaEMA.from_dict(self.config.mi.ema_alpha, self.progress.sigma_ema)
