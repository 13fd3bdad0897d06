"""The policy, PPO's critic, and their updates in an iteration (section 2.1, Algorithm 1, appendix B.2).

`Learner.update` gets the trajectories that the filter kept, and does this:

1. **Targets**, once per iteration. Every response token gets an advantage A: how much better its trajectory went than
   expected. With `advantage: gae` (PPO) the critic gives the expectation at each token: generalised advantage
   estimation over all response tokens of the trajectory, across its turns, with gamma and lam. The reward of a turn
   counts at the turn's last token. The advantages of the batch are then whitened. With `advantage: grpo` the
   expectation is the mean return of the group, the G trajectories of the same instance, and there is no critic: all
   tokens of a trajectory have A = (return - group mean) / group standard deviation (`norm_by_std: false`: undivided).
2. **Mini-batches.** The trajectories are shuffled and split. Each mini-batch makes one optimiser step (Adam, with the
   norm of the gradient clipped). Its gradient may be summed over micro-batches, which saves memory and changes nothing
   but rounding.
3. **The policy's loss** of a mini-batch, for each response token,

       - min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)  -  entropy_coef * entropy  +  kl_coef * KL(policy, reference)

   r = exp(log_probs - old_log_probs) compares the policy with the one that rolled out, from which it differs from the
   second mini-batch on. The clipping removes the gradient where r is too far from 1. For A < 0 the first term is at
   most clip_c |A| (dual clip). The reference policy is the base model. `loss_agg` reduces tokens to one number: the
   mean over all tokens, or the mean over trajectories of their token means, of their token sums, or of their token
   sums divided by a constant.
4. **The critic's loss**: squared error between its values and the returns that it should predict at each token (with
   GAE: advantage before whitening + old value), with the change since the rollout clipped to +-`value_clip`. The critic
   is a transformer of the policy's shape, started from the same base model, with a value head of zeros.

`plat_rl.rl.algorithms` has the losses, and `plat_rl.rl.filter.selection` the further effects of the filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from plat.trainer.heartbeat import beat
from plat_rl.embedded.adam import Adam
from plat_rl.embedded.batch import Batch, Packed, packing, token_rewards
from plat_rl.embedded.scoring import token_log_probs, token_values
from plat_rl.embedded.transformer.model import Shape, Weights, unpack
from plat_rl.rl import algorithms
from plat_rl.rl.algorithms import Aggregation
from plat_rl.rl.filter.selection import StepPlan
from plat_rl.run_config import RunConfig

REGULARISERS = {"entropy": -1, "kl": 1}  # the terms of the loss beside the task's, with their signs


class Targets(NamedTuple):
    """Targets of an iteration's updates, fixed before the first update.

    All are (N, T): a row for each trajectory, with the response tokens of all its turns in order.
    """

    advantages: Tensor
    returns: Tensor  # the critic's targets at each token; not used without a critic
    old_values: Tensor | None  # of the critic, if there is one
    reference_log_probs: Tensor | None  # under the reference policy, if the loss has a KL term

    def select(self, trajectories: Tensor, length: int) -> Targets:
        """Return the targets of `trajectories`, cut to `length` tokens."""
        return Targets._make(None if values is None else values[trajectories, :length] for values in self)


@dataclass(frozen=True)
class TrainingBatch:
    """Trajectories with their targets: those of an iteration, a mini-batch or a micro-batch.

    layout  position of each response token in the (N, T) arrays of the losses
    """

    batch: Batch
    layout: Packed
    targets: Targets

    def select(self, trajectories: np.ndarray) -> TrainingBatch:
        """Return the batch of these trajectories only; their indices are distinct and rising."""
        if len(trajectories) == self.batch.trajectories:
            return self
        device = self.layout.mask.device
        batch = self.batch.select(trajectories)
        layout = packing(batch, str(device))
        rows = torch.from_numpy(trajectories).to(device)
        return TrainingBatch(batch, layout, self.targets.select(rows, layout.mask.shape[1]))

    def micro_batches(self, size: int) -> Iterator[tuple[TrainingBatch, float]]:
        """Yield batches of at most `size` trajectories (0: all), each with its share of the response tokens."""
        count, tokens = self.batch.trajectories, self.batch.response_length.sum()
        for start in range(0, count, size or count):
            beat()
            micro_batch = self.select(np.arange(count)[start : start + (size or count)])
            yield micro_batch, float(micro_batch.batch.response_length.sum() / tokens)


LossOf = Callable[[TrainingBatch, Aggregation], tuple[Tensor, dict[str, float]]]  # -> loss, metrics
LOSSES = ("pg_loss", "value_loss")  # their names among the metrics


class Learner:
    """The trained parameters of a run and their optimisers.

    flat   the base model's flat vector, which is copied
    pad    token id that fills up prompts
    """

    def __init__(self, config: RunConfig, shape: Shape, flat: Tensor, pad: int) -> None:
        train = config.train
        betas = (train.beta1, train.beta2)
        self.config, self.shape, self.pad = config, shape, pad
        self.actor = Adam(flat.clone(), train.lr, betas, train.weight_decay, train.max_grad_norm)
        self.critic: Adam | None = None
        if config.algorithm.advantage == "gae":
            value_head = flat.new_zeros(shape.width + 1)
            parameters = torch.cat((flat, value_head))
            self.critic = Adam(parameters, train.critic_lr, betas, train.weight_decay, train.max_grad_norm)
        self.reference = flat.clone() if config.algorithm.kl_coef else None
        # The constant that Dr. GRPO divides by: the most tokens that a trajectory may have (verl's name for it).
        self.aggregation = Aggregation(loss_scale_factor=config.task.turns * config.task.response_tokens)

    def policy(self) -> Weights:
        """Return the policy's weights for rollouts and scoring, without gradient. Get them again after an update."""
        return unpack(self.shape, self.actor.parameter.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Return `actor.*` and `critic.*` for a checkpoint (`Adam.state`). They are not copies: updates change them."""
        return self.actor.state("actor") | (self.critic.state("critic") if self.critic else {})

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Load parameters and optimiser states from a dictionary that the method `tensors()` returned.

        Raises KeyError if it lacks the policy, or the critic where there is one.
        """
        self.actor.restore("actor", tensors)
        if self.critic:
            self.critic.restore("critic", tensors)

    def update(self, batch: Batch, plan: StepPlan, rng: np.random.Generator, step: int) -> dict[str, float]:
        """Update policy and critic in iteration `step` on the trajectories that the filter kept.

        Advantages, returns, and the reference policy's log-probabilities are computed once. Then the trajectories are
        shuffled and split into `plan.updates` mini-batches. Each makes one optimiser step of the policy, and one of the
        critic if there is one. In the first `critic_warmup` iterations the policy makes no step, only the critic does.
        Returns the `actor/` and `critic/` metrics, means over the mini-batches; no `actor/` ones in the warm-up.
        Raises RunError (class nan) if a reward, a value of the critic or a gradient is not finite.
        """
        iteration = self._with_targets(batch, plan)
        is_critic_warmup = self.critic is not None and step <= self.config.train.critic_warmup
        history: list[dict[str, float]] = []
        for trajectories in np.array_split(rng.permutation(batch.trajectories), plan.updates):
            if not len(trajectories):
                continue  # more updates than trajectories
            mini_batch = iteration.select(np.sort(trajectories))
            metrics: dict[str, float] = {}
            if not is_critic_warmup:
                metrics |= self._step("actor", self.actor, self._policy_loss, mini_batch, plan)
            if self.critic:
                metrics |= self._step("critic", self.critic, self._value_loss, mini_batch, plan)
            history.append(metrics)
        return {name: float(np.mean([metrics[name] for metrics in history])) for name in history[0]}

    @torch.no_grad()
    def _with_targets(self, batch: Batch, plan: StepPlan) -> TrainingBatch:
        """Return the batch with its advantages (appendix B.2: GAE, or relative to the group), before any update."""
        layout = packing(batch, str(self.actor.parameter.device))
        old_values, reference_log_probs = None, None
        if self.critic:
            old_values = layout.pack(token_values(self.shape, self.critic.parameter, batch, self.pad))
        if self.reference is not None:
            reference_log_probs = layout.pack(self._log_probs(self.reference, batch)[0])
        advantages, returns = algorithms.advantages(
            self.config.algorithm, token_rewards(batch, layout), layout.mask, batch.group, old_values
        )
        targets = Targets(advantages * plan.advantage_scale, returns, old_values, reference_log_probs)
        return TrainingBatch(batch, layout, targets)

    def _step(
        self, part: str, optimiser: Adam, loss_of: LossOf, mini_batch: TrainingBatch, plan: StepPlan
    ) -> dict[str, float]:
        """Make one step of a part (actor or critic), its gradient summed over micro-batches; return its metrics."""
        totals: dict[str, float] = {}
        for micro_batch, share in mini_batch.micro_batches(self.config.train.micro_batch):
            loss, metrics = loss_of(micro_batch, self._divisors(mini_batch))
            (loss * plan.loss_scale).backward()  # type: ignore[no-untyped-call]
            for name, value in metrics.items():
                # A loss is already its part of the mini-batch's; the others are token means.
                totals[name] = totals.get(name, 0.0) + (value if name in LOSSES else value * share)
        totals["grad_norm"] = optimiser.step(plan.lr_scale)
        return {f"{part}/{name}": value for name, value in totals.items()}

    def _policy_loss(self, micro_batch: TrainingBatch, divisors: Aggregation) -> tuple[Tensor, dict[str, float]]:
        """Return the objective of section 2.1."""
        batch, layout, targets = micro_batch.batch, micro_batch.layout, micro_batch.targets
        old_log_probs = torch.from_numpy(batch.log_probs[batch.token_mask]).to(layout.mask.device)
        log_probs, entropies = self._log_probs(self.actor.parameter, batch)
        return algorithms.actor_loss(
            self.config.algorithm,
            layout.pack(old_log_probs),
            layout.pack(log_probs),
            targets.advantages,
            layout.mask,
            token_entropy=layout.pack(entropies),
            ref_logp=targets.reference_log_probs,
            by=divisors,
        )

    def _value_loss(self, micro_batch: TrainingBatch, divisors: Aggregation) -> tuple[Tensor, dict[str, float]]:
        """Return the clipped squared error between values and returns."""
        layout, targets = micro_batch.layout, micro_batch.targets
        assert self.critic is not None and targets.old_values is not None
        values = layout.pack(token_values(self.shape, self.critic.parameter, micro_batch.batch, self.pad))
        config, mask = self.config.algorithm, layout.mask
        return algorithms.value_loss(config, values, targets.returns, targets.old_values, mask, divisors)

    def gradient_norms(
        self, batch: Batch, parts: Sequence[np.ndarray], together: bool = False
    ) -> list[dict[str, float]]:
        """Return for each part the gradient norm of each term of the policy's loss (`plat_rl.rl.gradient_probe`).

        together   add `regulariser`, the norm of KL term and entropy bonus combined with their signs, if present
        """
        norms = []
        for gradients in self.gradients(batch, parts):
            norms.append({name: float(gradient.norm()) for name, gradient in gradients.items()})
            regularisers = [sign * gradients[name] for name, sign in REGULARISERS.items() if name in gradients]
            if together and regularisers:
                norms[-1]["regulariser"] = float(torch.stack(regularisers).sum(0).norm())
        return norms

    def gradients(
        self, batch: Batch, parts: Sequence[np.ndarray], task_only: bool = False
    ) -> Iterator[dict[str, Tensor]]:
        """Yield for each part the gradient of each term of the policy's loss, by name.

        parts       numbers of trajectories, in rising order; each part is a mini-batch
        task_only   only the term `task`

        Advantages are those of the whole batch. Parameters, gradients and optimisers are unchanged.
        """
        whole, train = self._with_targets(batch, StepPlan(updates=1)), self.config.train
        size = train.micro_batch or -(-train.prompts * train.group_size // train.mini_batches)
        for part in parts:
            mini_batch = whole.select(part)
            total: dict[str, Tensor] = {}
            for micro_batch, _ in mini_batch.micro_batches(size):
                terms = self._terms(micro_batch, self._divisors(mini_batch), task_only)
                for name, term in terms.items():
                    (gradient,) = torch.autograd.grad(term, self.actor.parameter, retain_graph=True)
                    total[name] = total[name] + gradient if name in total else gradient
            yield total

    def _terms(self, micro_batch: TrainingBatch, divisors: Aggregation, task_only: bool) -> dict[str, Tensor]:
        """Return the terms of the policy's loss, the current policy as the old one (`plat_rl.rl.gradient_probe`)."""
        config, layout, targets = self.config.algorithm, micro_batch.layout, micro_batch.targets
        log_probs, entropies = self._log_probs(self.actor.parameter, micro_batch.batch)
        packed, mask = layout.pack(log_probs), layout.mask
        old = packed.detach()  # the current policy is the old one
        terms = {"task": algorithms.policy_loss(config, old, packed, targets.advantages, mask, divisors)[0]}
        if task_only:
            return terms
        if config.entropy_coef:
            terms["entropy"] = algorithms.entropy_bonus(config, layout.pack(entropies), mask, divisors)[0]
        if targets.reference_log_probs is not None:
            terms["kl"] = algorithms.kl_loss(config, packed, targets.reference_log_probs, mask, divisors)[0]
        return terms

    def _log_probs(self, parameters: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies (tokens,) of the response tokens at the rollout's temperature."""
        return token_log_probs(unpack(self.shape, parameters), batch, self.pad, self.config.train.temperature)

    def _divisors(self, mini_batch: TrainingBatch) -> Aggregation:
        """Return the divisors of a loss: tokens and trajectories of the whole mini-batch, for micro-batches too."""
        batch = mini_batch.batch
        return replace(
            self.aggregation, batch_tokens=int(batch.response_length.sum()), batch_sequences=batch.trajectories
        )
