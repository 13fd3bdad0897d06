"""The filter of section 4 applied to a batch of trajectories, and the plan of the update on what it keeps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plat.rl.config import WITHIN_GROUP, FilterConfig
from plat.rl.filter import Selection, StepPlan, select, select_within_group, step_plan, top_p_count
from plat.rl.scores import prompt_scores
from plat.trainer.config import TrainConfig
from plat.trainer.loop.trajectories import Trajectories, trajectories_of


def filter_batch(
    batch: Trajectories, config: FilterConfig, group_size: int, rng: np.random.Generator
) -> tuple[Selection, NDArray[np.int64]]:
    """Score the prompts of a batch and select: which prompts are kept, and the numbers of their trajectories.

    The rule `random` draws from `rng`, a number for each prompt; no other rule but `random_within_group` uses it.
    The rule `within_group` keeps every prompt, and of each group the trajectories with the largest spread of returns;
    `random_within_group` keeps as many of each group, drawn from `rng`.
    A batch without trajectories (DAPO found no informative prompt) is a selection of nothing.
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
    if config.rule in WITHIN_GROUP:
        chance = rng.random(returns.shape) if config.rule == "random_within_group" else None
        members = select_within_group(returns, config.value, config.within_group_rounding, chance)
        return selection, trajectories_of(np.arange(len(returns)), group_size, members)
    return selection, trajectories_of(selection.kept, group_size)


def update_plan(kept: int, train: TrainConfig, config: FilterConfig) -> tuple[StepPlan, dict[str, float]]:
    """How many updates on which scale, for this number of kept trajectories, and the metrics that say so.

    `filter/loss_scale` is the product of the three scales of the plan, of which at most one differs from 1.
    """
    plan = step_plan(kept, train.prompts * train.group_size, config, train.mini_batches)
    return plan, {
        "filter/loss_scale": plan.loss_scale * plan.advantage_scale * plan.lr_scale,
        "filter/updates": float(plan.updates),
    }
