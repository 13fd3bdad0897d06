"""The work that both trainers do, and how long they do it."""

from __future__ import annotations

import numpy as np

WARM_UP, STEPS = 3, 24
PROMPTS, GROUP, TOKENS = 8, 16, 48
QUIET = (
    "eval.every=1000",
    "eval.instances=1",
    "eval.heldout=1",
    "train.checkpoint_every=1000",
    "train.iterations=1000",
    "early_stop.variance_window=0",
    "early_stop.success_window=0",
    "algorithm=grpo",
)
ONE_TURN = (
    "task=frozenlake",
    "task.turns=1",
    "+task.env.max_solution=2",
    f"task.response_tokens={TOKENS}",
    "mi.every=0",
    "train.mini_batches=1",
    "train.lr=1e-5",
    "algorithm.entropy_coef=0",
)
MULTI_TURN = (
    "task=frozenlake",
    "model.shape.ffn=152",  # about the prototype's number of parameters
    "model.base.steps=400",
    "model.base.pool=4000",
    "mi.every=1",
    "mi.samples=128",
    "mi.trajectory=false",
    "train.mini_batches=4",
)


def mean_of_faster_half(seconds: list[float]) -> float:
    """The mean of the faster half: a busy machine slows the rest, too."""
    return float(np.mean(sorted(seconds)[: (len(seconds) + 1) // 2]))
