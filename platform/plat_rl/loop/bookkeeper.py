"""The order of a run around its algorithm: when to measure, log and save, and when the run ends.

The trainer implements `Trainable` and reports each iteration; the book-keeper asks it to evaluate, probe and hand over
its state when a rule says so. Step s is the policy after s iterations; step 0 is the base model. The rules:

    precheck     at step 0, if the trainer passes a function for it
    evaluation   at step 0, every `eval.every` iterations, at the last one and when a run stops early. The peak is the
                 step with the highest success on the validation instances; if several are equal, the earliest
    probe        at step 0, at every `mi.probe_every`th evaluation and at the last step
    mi proxies   at step 1 and every `mi.every` iterations, on the batch before anything is dropped from it
    gradients    at step 1 and every `gradient.every` iterations after it, or `gradient.times` times from the first
                 iteration to the last, on a separate batch, before the update
    held-out     the base model at step 0; the peak and the final policy when the run ends
    early stops  those of appendix B.2 (`plat_rl.rl.early_stop`), after each iteration and each evaluation
    checkpoint   at step 0, at every peak, every `train.checkpoint_every` iterations, at the last step, and when the
                 platform asks the run to stop
    log          one event per step, after all measurements of the step and before its checkpoint

**A trainer that owns its loop:**

    book = Bookkeeper(config, io, self)
    book.start()                                    # resumes from a checkpoint, or measures the base model
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

**A trainer whose loop belongs to a library** calls the same methods from the library's hooks. After `start` it sets the
library's step counter to `book.progress.step`. It calls `rolled_out` with all prompts of the batch, before rows are
dropped. `end_iteration` evaluates the updated policy, so the rollout must use that policy by then. The trainer leaves
the loop when `book.is_over`, and switches off the library's own evaluation, checkpoints and logger.
"""

from __future__ import annotations

import math
import resource
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat.errors import RunError
from plat.peak import is_higher
from plat.trainer.api import Outcome, RunIO, State, WriteFiles
from plat.words.metric_names import VAL_SUCCESS
from plat.words.outcomes import FINISHED, INTERRUPTED, stopped
from plat_rl.loop.trainable import Measured, Progress, Stopwatch, Trainable, read_progress, with_progress
from plat_rl.metric_names import HELDOUT_BASE_SUCCESS, HELDOUT_FINAL_SUCCESS, HELDOUT_SUCCESS
from plat_rl.rl import gradient_probe
from plat_rl.rl.early_stop import EarlyStops
from plat_rl.rl.mutual_information import is_measured
from plat_rl.run_config import RunConfig


class Bookkeeper:
    """The book-keeper of one run; the module docstring shows who calls which method.

    progress     the last complete step, the peak so far, and `sigma_ema`: what divides z-scores of mutual information
    stops        the early stops of appendix B.2 with their counts
    metrics      metrics of the current iteration so far, in the order in which they are logged
    write_files  None, or a function that writes the part of the trainer's state that is too large to pass through
                 memory, see `RunIO.save`; on restore this part is in `State.files`
    """

    def __init__(
        self, config: RunConfig, io: RunIO, trainable: Trainable, write_files: WriteFiles | None = None
    ) -> None:
        self.config, self.io, self.trainable, self.write_files = config, io, trainable, write_files
        self.progress = Progress()
        self.stops = EarlyStops(config.early_stop)
        self.metrics: dict[str, float] = {}
        self.stopwatch = Stopwatch()
        self.reason: str | None = None  # of an early stop
        self.is_interrupted = False

    def start(self, precheck: Callable[[], Measured] | None = None) -> None:
        """Resume from the newest checkpoint; without one, measure and save the base model.

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
        """True if there is no further iteration: all are done, an early stop, or a request to stop."""
        return self.is_interrupted or self.reason is not None or self.progress.step >= self.config.train.iterations

    # --- one iteration ------------------------------------------------------------------------------------------------

    def begin_iteration(self) -> int:
        """Start the clock of the next iteration and return its step."""
        self.metrics = {}
        self.stopwatch = Stopwatch()
        return self.step

    @property
    def step(self) -> int:
        """Step of the current iteration; after `end_iteration`, that of the next one."""
        return self.progress.step + 1

    def timed(self, part: str) -> AbstractContextManager[None]:
        """Return a context manager; the seconds of all blocks of this `part` are summed and logged as `time/<part>`."""
        return self.stopwatch.timed(part)

    def add(self, metrics: Mapping[str, float]) -> None:
        """Add metrics of the current iteration; they replace earlier ones of the same names."""
        self.metrics |= metrics

    def rolled_out(self, returns: NDArray[np.float64], metrics: Mapping[str, float]) -> None:
        """Record the batch of the iteration, before refills and before the filter.

        returns   (P, G) summed rewards of each trajectory: the paper's reward matrix, logged as a table
        metrics   those of `plat_rl.loop.trajectory_table.batch_metrics`; the early stop on reward variance uses
                  `rollout/reward_var`
        """
        self.io.table("reward_matrix", self.step, np.round(returns, 6).tolist())
        self.add(metrics)

    @property
    def measures_mutual_information(self) -> bool:
        """True if the current iteration scores reasonings under each other's prompts."""
        return is_measured(self.step, self.config.mi)

    @property
    def measures_gradients(self) -> bool:
        """True if the gradient is probed in the current iteration, before its update."""
        return gradient_probe.is_measured(self.step, self.config.gradient, self.config.train.iterations)

    def end_iteration(self, empty: bool) -> None:
        """Finish the iteration after its update: evaluate and probe if due, log, save, and decide if the run is over.

        empty   True if no trajectory was kept, so that no update was made

        Raises KeyError if `rolled_out` was not called, RunError (class nan) if the validation success is not finite.
        """
        config, step = self.config, self.step
        self.progress.step = step
        reason = self.stops.iteration(self.metrics["rollout/reward_var"], empty=empty)
        is_peak = False
        if step % config.eval.every == 0 or step == config.train.iterations or reason is not None:
            is_peak = self._evaluate()
            reason = self.stops.evaluation(self.metrics[VAL_SUCCESS]) or reason  # an evaluation may stop the run, too
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
        """Return the outcome. Unless the run is interrupted, peak and final policy first play the held-out instances.

        description   of the trained model, for the summary; an interrupted run has an empty summary

        Raises RunError if the trainer left its loop before the run was over, or if the peak's checkpoint is lost.
        """
        if not self.is_over:
            raise RunError(
                f"the trainer ended its loop after {self.progress.step} of {self.config.train.iterations} iterations",
                fix="this is a mistake in the trainer: it must iterate until the run is over",
            )
        if self.is_interrupted:
            return Outcome(INTERRUPTED)
        self._evaluate_peak_and_final()
        peak = {"peak_step": self.progress.best_step, "peak_success": self.progress.best_success}
        return Outcome(FINISHED if self.reason is None else stopped(self.reason), {**description, **peak})

    # --- measurements -------------------------------------------------------------------------------------------------

    def _measure_base_model(self, precheck: Callable[[], Measured] | None) -> None:
        """Do step 0: probe the base model, and evaluate it on the validation and the held-out instances."""
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
            self.add({HELDOUT_BASE_SUCCESS: heldout.metrics["success"]})
        self.stops.evaluation(self.metrics[VAL_SUCCESS])
        self.io.log(0, self.metrics)
        self._save(peak=True)

    def _evaluate(self) -> bool:
        """Evaluate the policy and add its `val/` metrics. Returns True if it is a new peak (a tie is not)."""
        with self.timed("eval"):
            validation = self.trainable.validate()
        self.add({f"val/{name}": value for name, value in validation.metrics.items()})
        self.io.table("val_instances", self.progress.step, dict(validation.table))
        for name, table in validation.further.items():
            self.io.table(name, self.progress.step, table)
        success = validation.metrics["success"]
        if not math.isfinite(success):
            raise RunError("validation success is not a number", failure_class="nan")
        if not is_higher(success, self.progress.best_success):
            return False
        self.progress.best_success, self.progress.best_step = success, self.progress.step
        return True

    def _probe(self) -> None:
        """Add the `probe/` metrics of fresh reasonings, at step 0 with the null. Does nothing if `mi.probe` is 0."""
        if not self.config.mi.probe:
            return
        step = self.progress.step
        with self.timed("probe"):
            probed = self.trainable.probe(step, with_null=step == 0)
        self.io.table("probe", step, dict(probed.table))
        self.add(probed.metrics)

    def _evaluate_peak_and_final(self) -> None:
        """Evaluate peak and final policy on the held-out instances, if there are any, and log the results."""
        if not self.config.eval.heldout:
            return
        step, peak_step = self.progress.step, self.progress.best_step
        checkpoint = None if peak_step == step else self._peak_checkpoint()
        final = self.trainable.evaluate_heldout(None)
        peak = final if checkpoint is None else self.trainable.evaluate_heldout(checkpoint)
        self._record_heldout("peak", peak)
        self._record_heldout("final", final)
        success = {HELDOUT_SUCCESS: peak.metrics["success"], HELDOUT_FINAL_SUCCESS: final.metrics["success"]}
        self.io.log(step, {"heldout/peak_step": float(peak_step), **success})

    def _peak_checkpoint(self) -> State:
        """Return the state at the peak. Raises RunError if that checkpoint is lost: no other one may replace it."""
        peak_step, checkpoint = self.progress.best_step, self.io.load_peak()
        if checkpoint is None or checkpoint[0] != peak_step:
            remaining = "none is left" if checkpoint is None else f"the newest that is left is of step {checkpoint[0]}"
            raise RunError(
                f"the peak checkpoint of step {peak_step} is gone or damaged ({remaining})",
                fix="delete this run's folder and run it again: a peak cannot be evaluated without its weights",
            )
        return read_progress(*checkpoint)[1]

    def _record_heldout(self, role: str, measured: Measured) -> None:
        """Log the held-out results of a policy as a table. `role` is base, peak or final."""
        table = {**measured.table, "peak_step": self.progress.best_step, "role": role}
        self.io.table(f"heldout_{role}", self.progress.step, table)

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def _save(self, peak: bool = False) -> None:
        """Write a checkpoint from which the run resumes bit-identically."""
        self.progress.early_stop = asdict(self.stops.counts)
        state = with_progress(self.trainable.state(), self.progress)
        self.io.save(self.progress.step, state, peak=peak, write_files=self.write_files)

    def _go_on_from(self, step: int, state: State) -> None:
        self.progress, own = read_progress(step, state)
        self.trainable.restore(step, own)
        self.stops = EarlyStops(self.config.early_stop, self.progress.early_stop)
