"""The policy, the critic of PPO, and how an iteration updates them (section 2.1, Algorithm 1, appendix B.2).

`Learner.update` gets the trajectories that the filter kept, and does this:

1. **Targets**, once per iteration. Every response token gets an advantage A: how much better its trajectory went than
   expected. With `advantage: gae` (PPO) the critic says what was expected, token by token: generalised advantage
   estimation over all response tokens of the trajectory, across its turns, with gamma and lam, the reward of a turn at
   the turn's last token; the advantages of the batch are then whitened. With `advantage: grpo` what was expected is
   the mean return of the group, the G trajectories of the same instance, and there is no critic: all tokens of a
   trajectory have A = (return - group mean) / group standard deviation (without the division: `norm_by_std: false`).
2. **Mini-batches.** The trajectories are shuffled and split. Each mini-batch makes one optimiser step (Adam, with the
   norm of the gradient clipped). Its gradient may be summed over micro-batches, which saves memory and changes nothing
   but rounding.
3. **The policy's loss** of a mini-batch, of each response token,

       - min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)  -  entropy_coef * entropy  +  kl_coef * KL(policy, reference)

   r = exp(log_probs - old_log_probs) compares the policy with the one that rolled out, from which it has moved by the
   second mini-batch; the clipping takes the gradient away where it has moved too far. For A < 0 the first term is at
   most clip_c |A| (dual clip). The reference policy is the base model. How tokens become one number is `loss_agg`: a
   mean over all tokens, or over the trajectories' token means or token sums, the last also divided by a constant.
4. **The critic's loss**: squared error between its values and the returns that it should predict at each token (with
   GAE: advantage before whitening + old value), with the change since the rollout clipped to +-`value_clip`. The critic
   is a transformer of the policy's shape, started from the same base model, with a value head of zeros.

What the filter changes besides the trajectories is in the `StepPlan`, by `filter.updates` and `filter.scale`: as many
mini-batches as without a filter, each smaller, or fewer of the same size; and one of the losses, the advantages or the
learning rate may be multiplied by the share of trajectories that were kept. Nothing kept: no update. The losses
themselves are in `plat.rl.algorithms`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from plat.rl import algorithms
from plat.rl.filter import StepPlan
from plat.trainer.config import RunConfig
from plat.trainer.embedded.adam import Adam
from plat.trainer.embedded.batch import Batch, Packed, packing, token_rewards
from plat.trainer.embedded.scoring import token_log_probs, token_values
from plat.trainer.embedded.transformer.model import Shape, Weights, unpack
from plat.trainer.heartbeat import beat

REGULARISERS = {"entropy": -1, "kl": 1}  # the terms of the loss beside the task's, with their signs in it
UNSCALED = StepPlan(updates=1, loss_scale=1.0, advantage_scale=1.0, lr_scale=1.0, share=1.0)


@dataclass(frozen=True)
class Targets:
    """What an iteration's updates learn from, fixed before the first of them.

    All are (N, T): a row for each trajectory, with the response tokens of all its turns one after the other.
    """

    advantages: Tensor
    returns: Tensor  # what the critic should predict at each token; not used without a critic
    old_values: Tensor | None  # of the critic, where there is one
    reference_log_probs: Tensor | None  # under the reference policy, where the loss has a KL term

    def select(self, trajectories: Tensor, length: int) -> Targets:
        """The targets of these trajectories, cut to `length` tokens."""

        def rows(values: Tensor) -> Tensor:
            return values[trajectories, :length]

        return Targets(
            rows(self.advantages),
            rows(self.returns),
            None if self.old_values is None else rows(self.old_values),
            None if self.reference_log_probs is None else rows(self.reference_log_probs),
        )


@dataclass(frozen=True)
class TrainingBatch:
    """Trajectories with their targets: all of an iteration, or those of a mini-batch or micro-batch.

    layout  where each response token goes in the (N, T) arrays of the losses
    """

    batch: Batch
    layout: Packed
    targets: Targets

    def select(self, trajectories: np.ndarray) -> TrainingBatch:
        """The batch of these trajectories only; their numbers are distinct and in rising order."""
        if len(trajectories) == self.batch.trajectories:
            return self
        device = self.layout.mask.device
        batch = self.batch.select(trajectories)
        layout = packing(batch, str(device))
        rows = torch.from_numpy(trajectories).to(device)
        return TrainingBatch(batch, layout, self.targets.select(rows, layout.mask.shape[1]))

    def micro_batches(self, size: int) -> Iterator[tuple[TrainingBatch, float]]:
        """Batches of at most `size` trajectories (0: all), each with its share of the response tokens."""
        count, tokens = self.batch.trajectories, self.batch.response_length.sum()
        for start in range(0, count, size or count):
            beat()
            micro_batch = self.select(np.arange(count)[start : start + (size or count)])
            yield micro_batch, float(micro_batch.batch.response_length.sum() / tokens)


class Learner:
    """The parameters that a run trains, and their optimisers. `flat` is the base model's flat vector; it is copied."""

    def __init__(self, config: RunConfig, shape: Shape, flat: Tensor) -> None:
        train = config.train
        betas = (train.beta1, train.beta2)
        self.config, self.shape = config, shape
        self.actor = Adam(flat.clone(), train.lr, betas, train.weight_decay, train.max_grad_norm)
        self.critic: Adam | None = None
        if config.algorithm.advantage == "gae":
            value_head = flat.new_zeros(shape.width + 1)
            parameters = torch.cat((flat, value_head))
            self.critic = Adam(parameters, train.critic_lr, betas, train.weight_decay, train.max_grad_norm)
        self.reference = flat.clone() if config.algorithm.kl_coef else None
        # The constant that Dr. GRPO divides by: the most tokens that a trajectory may have (verl's name for it).
        self.aggregation = algorithms.Aggregation(loss_scale_factor=config.task.turns * config.task.response_tokens)

    def policy(self) -> Weights:
        """The policy's weights for rollouts and scoring, without gradient."""
        return unpack(self.shape, self.actor.parameter.detach())

    def tensors(self) -> dict[str, Tensor]:
        """The parameters and optimiser states that a checkpoint keeps, by name."""
        return self.actor.state("actor") | (self.critic.state("critic") if self.critic else {})

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `tensors` gave."""
        self.actor.restore("actor", tensors)
        if self.critic:
            self.critic.restore("critic", tensors)

    def update(self, batch: Batch, plan: StepPlan, rng: np.random.Generator, pad: int, step: int) -> dict[str, float]:
        """The updates of iteration `step` on the trajectories that the filter kept.

        Advantages, returns, and the reference policy's log-probabilities are computed once. Then the trajectories are
        shuffled and split into `plan.updates` mini-batches. Each makes one optimiser step of the policy, and one of the
        critic if there is one. In the first `critic_warmup` iterations the policy makes no step, only the critic does.
        Returns the `actor/` and `critic/` metrics, means over the mini-batches.
        """
        iteration = self._with_targets(batch, plan, pad)
        is_critic_warmup = self.critic is not None and step <= self.config.train.critic_warmup
        history: list[dict[str, float]] = []
        for trajectories in np.array_split(rng.permutation(batch.trajectories), plan.updates):
            if not len(trajectories):
                continue  # more updates than trajectories
            mini_batch = iteration.select(np.sort(trajectories))
            metrics: dict[str, float] = {}
            if not is_critic_warmup:
                metrics |= self._update_policy(mini_batch, plan, pad)
            if self.critic:
                metrics |= self._update_critic(self.critic, mini_batch, plan, pad)
            history.append(metrics)
        return {name: float(np.mean([metrics[name] for metrics in history])) for name in history[0]}

    @torch.no_grad()
    def _with_targets(self, batch: Batch, plan: StepPlan, pad: int) -> TrainingBatch:
        """The whole batch with its advantages (appendix B.2: GAE, or relative to the group), before any update."""
        layout = packing(batch, str(self.actor.parameter.device))
        old_values, reference_log_probs = None, None
        if self.critic:
            old_values = layout.pack(token_values(self.shape, self.critic.parameter, batch, pad))
        if self.reference is not None:
            reference_log_probs = layout.pack(self._log_probs(self.reference, batch, pad)[0])
        advantages, returns = algorithms.advantages(
            self.config.algorithm, token_rewards(batch, layout), layout.mask, batch.group, old_values
        )
        targets = Targets(advantages * plan.advantage_scale, returns, old_values, reference_log_probs)
        return TrainingBatch(batch, layout, targets)

    def _update_policy(self, mini_batch: TrainingBatch, plan: StepPlan, pad: int) -> dict[str, float]:
        """One step on the objective of section 2.1, its gradient summed over micro-batches."""
        totals: dict[str, float] = {}
        for micro_batch, share in mini_batch.micro_batches(self.config.train.micro_batch):
            layout, targets = micro_batch.layout, micro_batch.targets
            old_log_probs = torch.from_numpy(micro_batch.batch.log_probs[micro_batch.batch.token_mask]).to(
                layout.mask.device
            )
            log_probs, entropies = self._log_probs(self.actor.parameter, micro_batch.batch, pad)
            loss, metrics = algorithms.actor_loss(
                self.config.algorithm,
                layout.pack(old_log_probs),
                layout.pack(log_probs),
                targets.advantages,
                layout.mask,
                token_entropy=layout.pack(entropies),
                ref_logp=targets.reference_log_probs,
                aggregation=self._divisors(mini_batch),
            )
            (loss * plan.loss_scale).backward()  # type: ignore[no-untyped-call]
            _add_metrics(totals, metrics, share, loss_name="pg_loss")
        totals["grad_norm"] = self.actor.step(plan.lr_scale)
        return {f"actor/{name}": value for name, value in totals.items()}

    def gradient_norms(
        self, batch: Batch, parts: Sequence[np.ndarray], pad: int, together: bool = False
    ) -> list[dict[str, float]]:
        """The norm of the gradient of each term of the policy's loss, by name (`plat.rl.gradient_probe`).

        together   also `regulariser`, that of the KL term and the entropy bonus as the loss adds them up, if it has any
        """
        norms = []
        for gradients in self.gradients(batch, parts, pad):
            norms.append({name: float(gradient.norm()) for name, gradient in gradients.items()})
            regularisers = [sign * gradients[name] for name, sign in REGULARISERS.items() if name in gradients]
            if together and regularisers:
                norms[-1]["regulariser"] = float(torch.stack(regularisers).sum(0).norm())
        return norms

    def gradients(
        self, batch: Batch, parts: Sequence[np.ndarray], pad: int, task_only: bool = False
    ) -> Iterator[dict[str, Tensor]]:
        """The gradient of each term of the policy's loss, by name, of one part after the other.

        parts   numbers of trajectories, each in rising order; each part is a mini-batch of its own. Advantages are
                those of the whole batch

        Parameters, gradients and optimisers stay as they are.
        """
        whole, train = self._with_targets(batch, UNSCALED, pad), self.config.train
        size = train.micro_batch or -(-train.prompts * train.group_size // train.mini_batches)
        for part in parts:
            mini_batch = whole.select(part)
            total: dict[str, Tensor] = {}
            for micro_batch, _ in mini_batch.micro_batches(size):
                terms = self._terms(micro_batch, self._divisors(mini_batch), pad, task_only)
                for name, term in terms.items():
                    (gradient,) = torch.autograd.grad(term, self.actor.parameter, retain_graph=True)
                    total[name] = total[name] + gradient if name in total else gradient
            yield total

    def _terms(
        self, micro_batch: TrainingBatch, divisors: algorithms.Aggregation, pad: int, task_only: bool
    ) -> dict[str, Tensor]:
        """The terms of the policy's loss on the old policy's own trajectories, see `plat.rl.gradient_probe`."""
        config, layout, targets = self.config.algorithm, micro_batch.layout, micro_batch.targets
        log_probs, entropies = self._log_probs(self.actor.parameter, micro_batch.batch, pad)
        packed, mask = layout.pack(log_probs), layout.mask
        old = packed.detach()  # the policy is that which rolled out
        terms = {"task": algorithms.policy_loss(config, old, packed, targets.advantages, mask, divisors)[0]}
        if task_only:
            return terms
        if config.entropy_coef:
            terms["entropy"] = algorithms.entropy_bonus(config, layout.pack(entropies), mask, divisors)[0]
        if targets.reference_log_probs is not None:
            terms["kl"] = algorithms.kl_loss(config, packed, targets.reference_log_probs, mask, divisors)[0]
        return terms

    def _update_critic(self, critic: Adam, mini_batch: TrainingBatch, plan: StepPlan, pad: int) -> dict[str, float]:
        """One step on the clipped squared error between values and returns."""
        totals: dict[str, float] = {}
        for micro_batch, share in mini_batch.micro_batches(self.config.train.micro_batch):
            layout, targets = micro_batch.layout, micro_batch.targets
            assert targets.old_values is not None
            loss, metrics = algorithms.value_loss(
                self.config.algorithm,
                layout.pack(token_values(self.shape, critic.parameter, micro_batch.batch, pad)),
                targets.returns,
                targets.old_values,
                layout.mask,
                self._divisors(mini_batch),
            )
            (loss * plan.loss_scale).backward()  # type: ignore[no-untyped-call]
            _add_metrics(totals, metrics, share, loss_name="value_loss")
        totals["grad_norm"] = critic.step(plan.lr_scale)
        return {f"critic/{name}": value for name, value in totals.items()}

    def _log_probs(self, parameters: Tensor, batch: Batch, pad: int) -> tuple[Tensor, Tensor]:
        """Log-probabilities and entropies (tokens,) of the response tokens at the temperature they were drawn at."""
        return token_log_probs(unpack(self.shape, parameters), batch, pad, self.config.train.temperature)

    def _divisors(self, mini_batch: TrainingBatch) -> algorithms.Aggregation:
        """What a loss is divided by: the tokens or trajectories of the whole mini-batch, in its micro-batches too."""
        batch = mini_batch.batch
        return replace(
            self.aggregation, batch_tokens=int(batch.response_length.sum()), batch_sequences=batch.trajectories
        )


def _add_metrics(totals: dict[str, float], metrics: dict[str, float], share: float, loss_name: str) -> None:
    """Add a micro-batch's metrics: its loss is a part of the mini-batch's already, the others are token means."""
    for name, value in metrics.items():
        totals[name] = totals.get(name, 0.0) + (value if name == loss_name else value * share)
