"""Adapt the update to the kept part of a batch: how many optimiser steps, and what is scaled by the kept share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from plat_rl.rl.config import FilterConfig


@dataclass(frozen=True)
class StepPlan:
    """How the step is adapted to the kept part of the batch.

    updates          optimiser steps in this iteration; 0 when nothing is kept
    loss_scale       multiplies the whole loss (under Adam this does next to nothing)
    advantage_scale  multiplies advantages only, as the released code: the task weakens against the regularisers
    lr_scale         multiplies the learning rate
    """

    updates: int
    loss_scale: float = 1.0
    advantage_scale: float = 1.0
    lr_scale: float = 1.0


def step_plan(kept: int, total: int, config: FilterConfig, mini_batches: int) -> StepPlan:
    """Return the number of updates and their scale, for `kept` of `total` prompts (or trajectories: the unit cancels).

    updates `same_count`: always `mini_batches` updates, each on fewer rows (the paper's "effective mini-batch shrunk");
    `fixed_size`: mini-batches keep their size, so ceil(kept / total * mini_batches) updates (the released code).
    scale: none | loss | advantage | learning_rate, by the kept share (`linear`) or its square root (`sqrt`).
    Raises ValueError if `kept` is not between 0 and `total`, or `total` or `mini_batches` is not positive.
    """
    if not 0 <= kept <= total or total <= 0 or mini_batches <= 0:
        raise ValueError(f"cannot plan a step for {kept} of {total} rows in {mini_batches} mini-batches")
    share = kept / total
    factor = math.sqrt(share) if config.scale_power == "sqrt" else share
    updates = mini_batches if config.updates == "same_count" else -(-kept * mini_batches // total)
    return StepPlan(
        updates=updates if kept else 0,
        loss_scale=factor if config.scale == "loss" else 1.0,
        advantage_scale=factor if config.scale == "advantage" else 1.0,
        lr_scale=factor if config.scale == "learning_rate" else 1.0,
    )
