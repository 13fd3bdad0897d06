"""The filter of section 4 applied to a batch of trajectories."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plat.rl.config import FilterConfig
from plat.rl.filter import Selection, select, select_within_group, top_p_count
from plat.rl.scores import prompt_scores
from plat.trainer.embedded.batch import Batch


def filter_batch(
    batch: Batch, config: FilterConfig, group_size: int, rng: np.random.Generator
) -> tuple[Selection, NDArray[np.int64]]:
    """Score the prompts of a batch and select: which prompts are kept, and the numbers of their trajectories.

    The rule `random` draws from `rng`, a number for each prompt; no other rule uses it.
    The rule `within_group` keeps every prompt, and of each group the trajectories with the largest spread of returns.
    A batch without trajectories (DAPO found no informative prompt) is a selection of nothing.
    """
    if not batch.trajectories:
        nothing = np.zeros(0, dtype=np.int64)
        return Selection(nothing, 0.0, 0.0, "no_informative_prompt"), nothing
    returns = batch.returns.reshape(-1, group_size)
    tokens = batch.per_trajectory(batch.response_length.astype(float))
    entropies = batch.per_trajectory(batch.entropies.sum(1).astype(float)) / tokens
    scores = prompt_scores(returns, entropies.reshape(-1, group_size), tokens.reshape(-1, group_size), config)
    count = top_p_count(returns, config.ddof) if config.kept == "as_top_p" else None
    selection = select(scores, config, draws=rng.random(len(scores)), count=count)
    if config.rule == "within_group":
        members = select_within_group(returns, config.value, config.within_group_rounding)
        return selection, (np.arange(len(returns))[:, None] * group_size + members).ravel()
    return selection, (selection.kept[:, None] * group_size + np.arange(group_size)).ravel()
