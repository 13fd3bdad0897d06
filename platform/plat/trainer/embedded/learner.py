"""The policy (and, for GAE, the critic): parameters, optimiser states, and one iteration's updates.

The critic is a transformer of the policy's shape, started from the same base model, with a value head of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plat.errors import RunError
from plat.rl import algorithms
from plat.rl.filter import StepPlan
from plat.trainer.config import RunConfig
from plat.trainer.embedded.batch import Batch, Packed, length_groups, packing, pad_prompts, token_rewards
from plat.trainer.embedded.flat_pass import fits, hidden_states
from plat.trainer.embedded.layers import ScoreTokens, at_least_float32
from plat.trainer.embedded.model import Shape, Weights, encode, extend, unpack


class Adam:
    """Adam over one flat vector, with the gradient's norm clipped (decoupled weight decay, as torch's AdamW)."""

    def __init__(self, flat: Tensor, lr: float, betas: tuple[float, float], weight_decay: float, clip: float) -> None:
        self.parameter = flat.requires_grad_()
        self.lr, self.clip = lr, clip
        self.optimiser = torch.optim.AdamW([flat], lr=lr, betas=betas, weight_decay=weight_decay, fused=True)

    def step(self, lr_scale: float = 1.0) -> float:
        """Apply the accumulated gradient; returns its norm before clipping. RunError (nan) leaves the weights alone."""
        grad = self.parameter.grad
        assert grad is not None
        norm = float(torch.linalg.vector_norm(grad))
        if not np.isfinite(norm):
            raise RunError("the gradient is not a finite number", failure_class="nan", mend="lower the learning rate")
        if norm > self.clip:
            grad.mul_(self.clip / (norm + 1e-6))
        self.optimiser.param_groups[0]["lr"] = self.lr * lr_scale
        self.optimiser.step()
        self.parameter.grad = None
        return norm

    def state(self, prefix: str) -> dict[str, Tensor]:
        found = self.optimiser.state.get(self.parameter) or {}
        moments = {f"{prefix}.{name}": value.detach() for name, value in found.items()}
        return {f"{prefix}.parameters": self.parameter.detach(), **moments}

    def restore(self, prefix: str, tensors: dict[str, Tensor]) -> None:
        with torch.no_grad():
            self.parameter.copy_(tensors[f"{prefix}.parameters"])
        moments = {name: tensors.get(f"{prefix}.{name}") for name in ("step", "exp_avg", "exp_avg_sq")}
        if moments["step"] is not None:
            like = self.parameter
            self.optimiser.state[like] = {
                name: value.clone() if name == "step" else value.to(like.device, like.dtype).clone()
                for name, value in moments.items()
                if value is not None
            }


class Learner:
    """The trained state of a run. `flat` is the base model's flat vector; it is copied."""

    def __init__(self, config: RunConfig, shape: Shape, flat: Tensor) -> None:
        train = config.train
        betas = (train.beta1, train.beta2)
        self.config, self.shape = config, shape
        self.actor = Adam(flat.clone(), train.lr, betas, train.weight_decay, train.max_grad_norm)
        self.critic: Adam | None = None
        if config.algorithm.advantage == "gae":
            head = flat.new_zeros(shape.width + 1)
            vector = torch.cat((flat, head))
            self.critic = Adam(vector, train.critic_lr, betas, train.weight_decay, train.max_grad_norm)
        self.reference = flat.clone() if config.algorithm.kl_coef else None
        # The norm divisor of Dr. GRPO: a constant, the most tokens a trajectory may have (verl.md section 5, point 6).
        self.aggregation = algorithms.Aggregation(loss_scale_factor=config.task.turns * config.task.response_tokens)

    def policy(self) -> Weights:
        """The policy's weights for rollouts and scoring (no gradient)."""
        return unpack(self.shape, self.actor.parameter.detach())

    def tensors(self) -> dict[str, Tensor]:
        return self.actor.state("actor") | (self.critic.state("critic") if self.critic else {})

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.actor.restore("actor", tensors)
        if self.critic:
            self.critic.restore("critic", tensors)

    def update(self, batch: Batch, plan: StepPlan, rng: np.random.Generator, pad: int, step: int) -> dict[str, float]:
        """`plan.updates` optimiser steps, each trajectory in one of them. Metrics are means over the steps."""
        config, algorithm = self.config, self.config.algorithm
        device = str(self.actor.parameter.device)
        packed = packing(batch, device)
        values = None
        if self.critic:
            with torch.no_grad():
                values = packed.pack(self._values(self.critic.parameter, batch, packed, pad))
        advantages, returns = algorithms.advantages(
            algorithm, token_rewards(batch, packed), packed.mask, batch.group, values
        )
        advantages = advantages * plan.advantage_scale
        reference = None
        if self.reference is not None:
            with torch.no_grad():
                reference = self._log_probs(unpack(self.shape, self.reference), batch, packed, pad)[0]
        warming = step <= config.train.critic_warmup and self.critic is not None
        order = rng.permutation(batch.trajectories)
        gathered: dict[str, list[float]] = {}
        for part in np.array_split(order, plan.updates):
            if not len(part):
                continue
            part = np.sort(part)
            mini = batch.select(part)
            layout = packing(mini, device)
            rows = torch.from_numpy(part).to(device)
            width = layout.mask.shape[1]
            found: dict[str, float] = {}
            if not warming:
                found |= self._actor_step(
                    mini,
                    layout,
                    advantages[rows, :width],
                    None if reference is None else packed.pack(reference)[rows, :width],
                    pad,
                    plan,
                )
            if self.critic and values is not None:
                found |= self._critic_step(mini, layout, returns[rows, :width], values[rows, :width], pad, plan)
            for name, value in found.items():
                gathered.setdefault(name, []).append(value)
        return {name: float(np.mean(values)) for name, values in gathered.items()}

    def _actor_step(
        self, mini: Batch, layout: Packed, advantages: Tensor, reference: Tensor | None, pad: int, plan: StepPlan
    ) -> dict[str, float]:
        totals: dict[str, float] = {}
        for part, micro, here, share in self._micro_batches(mini, layout):
            old = torch.from_numpy(micro.log_probs[micro.token_mask]).to(advantages.device)
            weights = unpack(self.shape, self.actor.parameter)
            log_probs, entropies = self._log_probs(weights, micro, here, pad)
            width = here.mask.shape[1]
            loss, found = algorithms.actor_loss(
                self.config.algorithm,
                here.pack(old),
                here.pack(log_probs),
                advantages[part, :width],
                here.mask,
                token_entropy=here.pack(entropies),
                ref_logp=None if reference is None else reference[part, :width],
                aggregation=self._whole(mini),
            )
            (loss * plan.loss_scale).backward()
            for name, value in found.items():  # the loss is already a share of the whole, the others are means
                totals[name] = totals.get(name, 0.0) + (value if name == "pg_loss" else value * share)
        totals["grad_norm"] = self.actor.step(plan.lr_scale)
        return {f"actor/{name}": value for name, value in totals.items()}

    def _critic_step(
        self, mini: Batch, layout: Packed, returns: Tensor, old_values: Tensor, pad: int, plan: StepPlan
    ) -> dict[str, float]:
        assert self.critic is not None
        totals: dict[str, float] = {}
        for part, micro, here, share in self._micro_batches(mini, layout):
            predicted = here.pack(self._values(self.critic.parameter, micro, here, pad))
            width = here.mask.shape[1]
            loss, found = algorithms.value_loss(
                self.config.algorithm,
                predicted,
                returns[part, :width],
                old_values[part, :width],
                here.mask,
                self._whole(mini),
            )
            (loss * plan.loss_scale).backward()
            for name, value in found.items():
                totals[name] = totals.get(name, 0.0) + (value if name == "value_loss" else value * share)
        totals["grad_norm"] = self.critic.step(plan.lr_scale)
        return {f"critic/{name}": value for name, value in totals.items()}

    def _whole(self, mini: Batch) -> algorithms.Aggregation:
        """What a loss is divided by: the whole mini-batch, also when it is computed in micro-batches."""
        return replace(
            self.aggregation, batch_tokens=int(mini.response_length.sum()), batch_sequences=mini.trajectories
        )

    def _micro_batches(self, mini: Batch, layout: Packed) -> Iterator[tuple[Tensor, Batch, Packed, float]]:
        """(trajectories, their batch, its layout, its share of the tokens); one part unless `micro_batch` is set."""
        size = self.config.train.micro_batch or mini.trajectories
        everything = np.arange(mini.trajectories)
        for at in range(0, mini.trajectories, size):
            part = everything[at : at + size]
            whole = len(part) == mini.trajectories
            micro = mini if whole else mini.select(part)
            here = layout if whole else packing(micro, str(layout.mask.device))
            share = float(micro.response_length.sum() / mini.response_length.sum())
            yield torch.from_numpy(part).to(layout.mask.device), micro, here, share

    def _hidden(self, weights: Weights, batch: Batch, packed: Packed, pad: int) -> Tensor:
        """Hidden states (tokens, width) that predict each response token."""
        if fits(weights, batch.prompts, batch.response_length):
            return hidden_states(
                weights, batch.prompts, batch.prompt_of_row, batch.responses, batch.response_length, pad
            )
        device = str(packed.row.device)
        ids, lengths, last = pad_prompts(batch.prompts, pad, device)
        prefix = encode(weights, ids, lengths)
        places, parts = [], []
        starts = np.cumsum(batch.response_length) - batch.response_length  # of each row among all tokens
        for group in length_groups(batch.response_length):
            longest = batch.response_length[group].max()
            rows = torch.from_numpy(batch.prompt_of_row[group]).to(device)
            fed = torch.cat((last[rows, None], torch.from_numpy(batch.responses[group, : longest - 1]).to(device)), 1)
            row, column = np.nonzero(batch.token_mask[group, :longest])
            places.append(starts[group][row] + column)
            here = torch.from_numpy(row * longest + column).to(device)
            parts.append(extend(weights, prefix, rows, fed).flatten(0, 1)[here])
        if len(parts) == 1:
            return parts[0]
        return torch.cat(parts)[torch.from_numpy(np.argsort(np.concatenate(places))).to(device)]

    def _log_probs(self, weights: Weights, batch: Batch, packed: Packed, pad: int) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy (tokens,) of each response token under softmax(logits / temperature)."""
        scores = at_least_float32(F.linear(self._hidden(weights, batch, packed, pad), weights.head))
        if self.config.train.temperature != 1:
            scores = scores / self.config.train.temperature
        chosen = torch.from_numpy(batch.responses[batch.token_mask]).to(scores.device)
        return ScoreTokens.apply(scores, chosen)  # type: ignore[no-any-return]

    def _values(self, vector: Tensor, batch: Batch, packed: Packed, pad: int) -> Tensor:
        """Value (tokens,) of the state before each response token."""
        flat, head = vector[: -(self.shape.width + 1)], vector[-(self.shape.width + 1) :]
        hidden = self._hidden(unpack(self.shape, flat), batch, packed, pad)
        return hidden @ (head[:-1] * math.sqrt(self.shape.width)) + head[-1]
