"""The supervised training of a base model: cross-entropy on demonstrations of all its tasks together.

Demonstrations mix levels of reasoning: true facts with good actions (share `base.grounded`), wrong facts with random
actions (share `base.wrong`), and templates. A share `base.usefulness` of the templates has a good action. The instances
are those of the split `base`, which neither reinforcement learning nor an evaluation uses.
"""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from torch import Tensor

from plat.errors import CheckpointError
from plat_envs.api import make_environment
from plat_envs.capabilities import teacher
from plat_envs.stand_in.demonstrations import Mix, demonstrations
from plat_rl.embedded.base_model.recipe import tasks_of
from plat_rl.embedded.batch import pad_prompts
from plat_rl.embedded.transformer.model import Shape, Weights, encode, extend, initialise, unpack
from plat_rl.embedded.transformer.tokenizer import Tokenizer
from plat_rl.run_config import BaseConfig

Demonstration = tuple[tuple[int, ...], tuple[int, ...]]  # prompt, response with eos

BETAS = (0.9, 0.99)  # of Adam
WARMUP_STEPS = 50
MAX_GRAD_NORM = 1.0
REPORT_EVERY = 50  # steps


def corpus(task: str, base: BaseConfig, tokenizer: Tokenizer) -> list[Demonstration]:
    """Return `base.pool` demonstrations of a task as token ids, always the same for one `base.seed`.

    They mix good and random actions, in the shares of `base` (`plat_envs.stand_in.demonstrations.Mix`). Their instances
    are of the task's split "base".
    """
    rng = random.Random(f"demonstrations/{task}/{base.seed}")
    mix = Mix(base.grounded, base.wrong, base.usefulness)
    environment = teacher(make_environment(task, split="base"), task)
    turns = demonstrations(environment, rng, base.pool, mix, base.seed * 10_000_000)
    return [(tuple(tokenizer.prompt(turn.prompt)), (*tokenizer.encode(turn.response), tokenizer.eos)) for turn in turns]


def train_base(base: BaseConfig, shape: Shape, tokenizer: Tokenizer) -> tuple[Tensor, list[float]]:
    """Return the flat parameters after `base.steps` steps of Adam, and the reported losses (nats per token).

    Every step draws an equal share of `base.batch` demonstrations from each task; its loss is the mean over all
    response tokens. The loss of every 50th step and of the last is reported: printed, and in the list. Raises
    CheckpointError if the training diverges.
    """
    tasks = tasks_of(base.version)
    pools = {task: corpus(task, base, tokenizer) for task in tasks}
    flat = initialise(shape, base.seed).requires_grad_()
    optimiser = torch.optim.AdamW([flat], lr=base.lr, betas=BETAS, weight_decay=0.0, fused=True)
    rng = random.Random(base.seed)
    share = max(1, base.batch // len(tasks))
    losses: list[float] = []
    for step in range(base.steps):
        optimiser.param_groups[0]["lr"] = learning_rate(base, step)
        chosen = [demonstration for task in tasks for demonstration in rng.choices(pools[task], k=share)]
        loss = cross_entropy(unpack(shape, flat), chosen, tokenizer.pad)
        flat.grad = None
        torch.autograd.backward(loss)
        assert flat.grad is not None
        norm = float(torch.linalg.vector_norm(flat.grad))
        if norm > MAX_GRAD_NORM:
            flat.grad.mul_(MAX_GRAD_NORM / norm)
        optimiser.step()
        if step % REPORT_EVERY == 0 or step + 1 == base.steps:
            losses.append(round(float(loss.detach()), 4))
            print(f"base model: step {step + 1}/{base.steps}, loss {float(loss.detach()):.3f}", flush=True)
    if not bool(torch.isfinite(flat).all()):
        raise CheckpointError("the base model diverged", where="model.base.lr", fix="lower model.base.lr")
    return flat.detach(), losses


def learning_rate(base: BaseConfig, step: int) -> float:
    """Return the learning rate of a step: warm-up over the first steps, times a linear decay to zero."""
    return base.lr * min(1.0, (step + 1) / WARMUP_STEPS) * (1 - step / base.steps)


def cross_entropy(weights: Weights, chosen: list[Demonstration], pad: int) -> Tensor:
    """Return the mean cross-entropy of all response tokens, in nats."""
    ids, lengths, last = pad_prompts([prompt for prompt, _ in chosen], pad, "cpu")
    longest = max(len(response) for _, response in chosen)
    targets = torch.tensor([response + (-100,) * (longest - len(response)) for _, response in chosen])
    fed = torch.cat((last[:, None], targets[:, :-1].clamp_min(pad)), 1)
    hidden = extend(weights, encode(weights, ids, lengths), torch.arange(len(chosen)), fed)
    return F.cross_entropy(F.linear(hidden, weights.head).flatten(0, 1), targets.flatten(), ignore_index=-100)
