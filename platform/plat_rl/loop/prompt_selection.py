"""Choose the trajectories to learn from: DAPO's refills, the filter of section 4, and the plan of the update."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat_rl.loop.trajectory_table import Trajectories
from plat_rl.rl.config import FilterConfig
from plat_rl.rl.filter.rule import find_rule
from plat_rl.rl.filter.selection import Selection, StepPlan, select, select_within_group, step_plan, top_p_count
from plat_rl.rl.statistics import ZERO, prompt_scores, trajectories_of
from plat_rl.run_config import RunConfig, TrainConfig

Batch = TypeVar("Batch", bound=Trajectories)


def uninformative(rewards: ArrayLike) -> NDArray[np.bool_]:
    """Return bool [P], True for each prompt whose returns [P, G] are all equal within 1e-10 (DAPO's rule)."""
    array = np.asarray(rewards, dtype=np.float64)
    equal: NDArray[np.bool_] = array.max(axis=1) - array.min(axis=1) <= ZERO
    return equal


def refill(
    first: Batch, roll_out: Callable[[int, int], Batch], config: RunConfig
) -> tuple[list[Batch], NDArray[np.int64], dict[str, float]]:
    """Roll out further batches, at most `max_refills`, until P prompts have returns that are not all equal (DAPO).

    verl's own loop has no limit. Prompts that are still missing at the end make the batch smaller, or empty.

    first      the batch of the iteration, of P prompts with G trajectories each
    roll_out   (number of the refill, from 1; number of fresh prompts) -> their trajectories

    Returns all batches, the first one included; the numbers of the trajectories to learn from, counted through all
    batches (at most P * G, perhaps none); and the metrics `rollout/refills` and `rollout/informative_prompts`.
    """
    prompts, group_size, max_refills = config.train.prompts, config.train.group_size, config.algorithm.max_refills
    batches, before = [first], 0  # before: prompts in earlier batches
    chosen: list[int] = []
    while True:
        returns = batches[-1].returns.reshape(-1, group_size)
        chosen += (before + np.flatnonzero(~uninformative(returns))).tolist()
        del chosen[prompts:]
        if len(chosen) == prompts or len(batches) > max_refills:
            break
        before += len(returns)
        batches.append(roll_out(len(batches), prompts - len(chosen)))
    metrics = {"rollout/refills": float(len(batches) - 1), "rollout/informative_prompts": float(len(chosen))}
    return batches, trajectories_of(chosen, group_size), metrics


def filter_batch(
    batch: Trajectories, config: FilterConfig, group_size: int, rng: np.random.Generator
) -> tuple[Selection, NDArray[np.int64]]:
    """Score the prompts of a batch and select: return the selection and the numbers of the kept trajectories.

    The rule `random` draws one number per prompt from `rng`. The rule `within_group` keeps every prompt, and of each
    group the trajectories with the largest spread of returns; `random_within_group` keeps as many of each group, drawn
    from `rng`. The result of other rules does not depend on `rng`. A batch without trajectories (DAPO found no
    informative prompt) gives an empty selection. Raises RunError (class nan) for scores that are not finite (`select`).
    """
    if not batch.trajectories:
        nothing = np.zeros(0, dtype=np.int64)
        return Selection(nothing, 0.0, 0.0, "no_informative_prompt"), nothing
    returns = batch.returns.reshape(-1, group_size)
    tokens = batch.per_trajectory(batch.response_length.astype(float))
    entropies = batch.per_trajectory(batch.entropies.sum(1).astype(float)) / tokens
    by_prompt = (values.reshape(-1, group_size) for values in (entropies, tokens, batch.success))
    entropies, tokens, successes = by_prompt
    scores = prompt_scores(returns, entropies, tokens, config, successes)
    count = top_p_count(returns, config.ddof) if config.kept == "as_top_p" else None
    selection = select(scores, config, draws=rng.random(len(scores)), count=count)
    rule = find_rule(config.rule)
    if rule.within:
        chance = rng.random(returns.shape) if rule.draws else None
        members = select_within_group(returns, config, chance)
        return selection, trajectories_of(np.arange(len(returns)), group_size, members)
    return selection, trajectories_of(selection.kept, group_size)


def update_plan(kept: int, train: TrainConfig, config: FilterConfig) -> tuple[StepPlan, dict[str, float]]:
    """Return the plan of the updates for `kept` trajectories out of the P * G of a full batch, and its metrics.

    `filter/loss_scale` is the product of the three scales of the plan; at most one of them differs from 1.
    `filter/updates` is the planned number of optimiser steps.
    """
    plan = step_plan(kept, train.prompts * train.group_size, config, train.mini_batches)
    return plan, {
        "filter/loss_scale": plan.loss_scale * plan.advantage_scale * plan.lr_scale,
        "filter/updates": float(plan.updates),
    }
