"""The training loop: roll out, measure mutual information, filter, update, evaluate, checkpoint.

Every random number is a function of (seed, purpose, step): a resumed run needs no generator state to be bit-identical.
Step s is the policy after s iterations; step 0 is the base model.
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from plat.errors import RunError
from plat.rl.dynamic_sampling import Refills
from plat.rl.early_stop import EarlyStops
from plat.rl.filter import Selection, select, select_within_group, step_plan
from plat.rl.mutual_information import SigmaEMA, is_measured
from plat.rl.scores import prompt_scores
from plat.rl.statistics import rollout_metrics
from plat.trainer.api import Outcome, RunIO, State
from plat.trainer.config import RunConfig
from plat.trainer.embedded.base import describe, load_base
from plat.trainer.embedded.batch import Batch, concatenate
from plat.trainer.embedded.cross_score import measure
from plat.trainer.embedded.evaluate import SCORING, TRAINING, UPDATING, evaluate, instance_results, make_players
from plat.trainer.embedded.learner import Learner
from plat.trainer.embedded.model import Weights, unpack
from plat.trainer.embedded.rollout import rollout


def train(config: RunConfig, io: RunIO) -> Outcome:
    """Train from the base model, or from `io.restore()`, to `train.iterations` or an early stop (appendix B.2)."""
    torch.set_num_threads(config.threads)
    if config.device == "cuda":  # the same bits after a resume; must be said before CUDA starts
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
    return _Run(config, io).go()


@dataclass
class _Progress:
    """What a checkpoint must carry besides tensors."""

    step: int = 0
    best_success: float = -1.0
    best_step: int = 0
    early_stop: dict[str, float] = field(default_factory=dict)
    sigma_ema: dict[str, float] = field(default_factory=dict)


class _Run:
    def __init__(self, config: RunConfig, io: RunIO) -> None:
        self.config, self.io = config, io
        base = load_base(config, io.cache)
        io.facts({"base_sha256": base.sha256})  # before anything is restored: another base cannot go on with this run
        self.shape, self.tokenizer = base.shape, base.tokenizer
        self.learner = Learner(config, self.shape, base.parameters)
        self.players = make_players(config, "train", config.train.prompts * config.train.group_size)
        self.judges = make_players(config, "validation", config.eval.instances)
        self.stops = EarlyStops(config.early_stop)
        self.ema = SigmaEMA(config.mi.ema_alpha)
        self.progress = _Progress()
        self.seconds: dict[str, float] = {}

    def go(self) -> Outcome:
        restored = self.io.restore()
        if restored is not None:
            self._restore(*restored)
        else:
            self._start()
        reason = self.stops.reason
        while reason is None and self.progress.step < self.config.train.iterations:
            reason = self._iterate(self.progress.step + 1)
            if reason is None and self.io.should_stop():
                self._save()
                return Outcome("interrupted")
        self._finish()
        return Outcome("finished" if reason is None else f"stopped:{reason}", self._summary())

    # --- one iteration ------------------------------------------------------------------------------------------------

    def _iterate(self, step: int) -> str | None:
        """Iteration `step`: everything is logged, then checkpointed; the reason to stop, or None."""
        config = self.config
        metrics: dict[str, float] = {}
        started = time.perf_counter()
        self.seconds = {}
        weights = self.learner.policy()
        with self._timed("rollout"):
            batch = self._rollout(weights, step, 0, config.train.prompts)
        returns = batch.returns.reshape(config.train.prompts, -1)
        metrics |= rollout_metrics(returns) | self._rollout_metrics(batch)
        self.io.table("reward_matrix", step, np.round(returns, 6).tolist())
        if is_measured(step, config.mi):
            with self._timed("cross_score"):
                metrics |= measure(
                    weights,
                    batch,
                    config.mi,
                    self.ema,
                    self.tokenizer.pad,
                    config.train.temperature,
                    np.random.default_rng((config.seed, SCORING, step)),
                )
        if config.algorithm.dynamic_sampling:
            with self._timed("refill"):
                batch, more = self._refill(weights, batch, step)
                metrics |= more
        with self._timed("filter"):
            selection, kept = self._filter(batch)
        metrics |= selection.metrics()
        total = config.train.prompts * config.train.group_size
        plan = step_plan(len(kept), total, config.filter, config.train.mini_batches)
        metrics["filter/loss_scale"] = plan.loss_scale * plan.advantage_scale * plan.lr_scale
        metrics["filter/updates"] = float(plan.updates if len(kept) else 0)
        if len(kept):
            with self._timed("update"):
                rng = np.random.default_rng((config.seed, UPDATING, step))
                metrics |= self.learner.update(batch.select(kept), plan, rng, self.tokenizer.pad, step)
        reason = self.stops.iteration(metrics["rollout/reward_var"], empty=not len(kept))
        self.progress.step = step
        improved = False
        if step % config.eval.every == 0 or step == config.train.iterations or reason is not None:
            improved = self._validate(step, metrics)
            reason = self.stops.evaluation(metrics["val/success"]) or reason
        metrics |= {f"time/{name}": value for name, value in self.seconds.items()}
        metrics["time/step"] = time.perf_counter() - started
        metrics["mem/peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self.io.log(step, metrics)
        last = step == config.train.iterations or reason is not None
        if improved or last or step % config.train.checkpoint_every == 0:
            self._save(peak=improved)
        return reason

    def _rollout(self, weights: Weights, step: int, refill: int, prompts: int) -> Batch:
        """`prompts` new training instances, group_size trajectories each. Instances depend on seed, step and refill."""
        config, size = self.config, self.config.train.group_size
        first = config.seed * 100_000_000 + step * 1000 + refill * 100
        return rollout(
            weights,
            self.tokenizer,
            self.players[: prompts * size],
            [first + number // size for number in range(prompts * size)],
            [step * size + number % size for number in range(prompts * size)],
            np.arange(prompts * size) // size + refill * config.train.prompts,
            turns=config.task.turns,
            tokens=config.task.response_tokens,
            temperature=config.train.temperature,
            key=(TRAINING, config.seed, step, refill),
            context=config.train.context,
        )

    def _refill(self, weights: Weights, batch: Batch, step: int) -> tuple[Batch, dict[str, float]]:
        """DAPO's dynamic sampling: prompts with equal returns are replaced, at most `max_refills` times."""
        size = self.config.train.group_size
        plan = Refills(self.config.train.prompts, self.config.algorithm.max_refills)
        batches = [batch]
        wanted = plan.offer(batch.returns.reshape(-1, size))
        while wanted:
            batches.append(self._rollout(weights, step, len(batches), wanted))
            wanted = plan.offer(batches[-1].returns.reshape(-1, size))
        starts = np.cumsum([0, *(each.trajectories for each in batches)])
        chosen = [np.arange(size) + starts[at] + prompt * size for at, prompt in plan.chosen]
        metrics = {
            "rollout/refills": float(plan.rollouts - 1),
            "rollout/informative_prompts": float(len(plan.chosen)),
        }
        indices = np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)
        return concatenate(batches).select(indices), metrics

    def _filter(self, batch: Batch) -> tuple[Selection, np.ndarray]:
        """The selection over prompts, and the trajectories kept."""
        config, size = self.config.filter, self.config.train.group_size
        if not batch.trajectories:
            return Selection(np.zeros(0, dtype=np.int64), 0.0, 0.0, "no_informative_prompt"), np.zeros(
                0, dtype=np.int64
            )
        returns = batch.returns.reshape(-1, size)
        tokens = batch.per_trajectory(batch.response_length.astype(float))
        entropy = batch.per_trajectory(batch.entropies.sum(1).astype(float)) / tokens
        scores = prompt_scores(returns, entropy.reshape(-1, size), tokens.reshape(-1, size), config)
        selection = select(scores, config)
        if config.rule == "within_group":
            inside = select_within_group(returns, config.value, config.within_group_rounding)
            return selection, (inside + np.arange(len(returns))[:, None] * size).ravel()
        return selection, (selection.kept[:, None] * size + np.arange(size)).ravel()

    def _rollout_metrics(self, batch: Batch) -> dict[str, float]:
        tokens = batch.response_length.sum()
        return {
            "rollout/success": float(batch.success.mean()),
            "rollout/format_valid": float(batch.format_valid.mean()),
            "rollout/reasoning_parses": float(batch.reasoning_parses.mean()),
            "rollout/response_tokens": float(batch.response_length.mean()),
            "rollout/entropy": float(batch.entropies.sum() / tokens),
        }

    # --- evaluation and checkpoints -----------------------------------------------------------------------------------

    def _start(self) -> None:
        """Step 0: the base model on both fixed sets."""
        metrics: dict[str, float] = {}
        self._validate(0, metrics)
        self._hold_out(0, self.learner.policy(), "base", metrics)
        self.stops.evaluation(metrics["val/success"])
        self.io.log(0, metrics)
        self._save(peak=True)

    def _validate(self, step: int, metrics: dict[str, float]) -> bool:
        """Add `val/` metrics; True when this is the best success so far (the first of equals)."""
        config = self.config
        with self._timed("eval"):
            found, batch = evaluate(
                self.learner.policy(), self.tokenizer, config, "validation", config.eval.instances, self.judges
            )
        metrics |= {f"val/{name}": value for name, value in found.items()}
        self.io.table("val_instances", step, instance_results(batch))
        if not math.isfinite(found["success"]):
            raise RunError("validation success is not a number", failure_class="nan")
        if found["success"] <= self.progress.best_success:
            return False
        self.progress.best_success, self.progress.best_step = found["success"], step
        return True

    def _hold_out(self, step: int, weights: Weights, role: str, metrics: dict[str, float]) -> None:
        """The second fixed set, for an unbiased value of the peak checkpoint; none with `eval.heldout: 0`."""
        config = self.config
        if not config.eval.heldout:
            return
        players = make_players(config, "heldout", config.eval.heldout)
        found, batch = evaluate(weights, self.tokenizer, config, "heldout", config.eval.heldout, players)
        name = "heldout/base_success" if role == "base" else "heldout/success"
        metrics[name] = found["success"]
        results = instance_results(batch) | {"role": role, "peak_step": self.progress.best_step}
        self.io.table("heldout_base" if role == "base" else "heldout_peak", step, results)

    def _finish(self) -> None:
        """The peak checkpoint on the held-out set, logged at the last step."""
        peak = self.io.load_peak()
        if peak is None:
            raise RunError("the peak checkpoint is gone or damaged", mend="plat retry this run")
        weights = unpack(self.shape, peak[1].tensors["actor.parameters"].to(self.config.device))
        metrics: dict[str, float] = {"heldout/peak_step": float(peak[0])}
        self._hold_out(self.progress.step, weights, "peak", metrics)
        self.io.log(self.progress.step, metrics)

    def _save(self, peak: bool = False) -> None:
        self.progress.early_stop = self.stops.to_dict()
        self.progress.sigma_ema = self.ema.to_dict()
        tensors = {name: tensor.cpu() for name, tensor in self.learner.tensors().items()}
        self.io.save(self.progress.step, State(tensors, dict(vars(self.progress))), peak=peak)

    def _restore(self, step: int, state: State) -> None:
        self.progress = _Progress(**state.meta)
        if self.progress.step != step:
            raise RunError(f"checkpoint of step {step} says it is of step {self.progress.step}")
        self.learner.restore(state.tensors)
        self.stops = EarlyStops.from_dict(self.config.early_stop, state.meta["early_stop"])
        self.ema = SigmaEMA.from_dict(self.config.mi.ema_alpha, state.meta["sigma_ema"])

    def _summary(self) -> dict[str, Any]:
        return describe(self.config, self.shape) | {
            "peak_step": self.progress.best_step,
            "peak_success": self.progress.best_success,
        }

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
