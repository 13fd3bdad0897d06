"""Apply a filter rule to a batch: scores of prompts in, kept prompts or trajectories out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat.errors import RunError
from plat_rl.rl.config import PAPER_TOP_P, FilterConfig
from plat_rl.rl.filter.rule import Part, Ranking, Rule, find_rule
from plat_rl.rl.statistics import ZERO, prompt_scores


@dataclass(frozen=True)
class Selection:
    """The prompts that a filter keeps.

    kept       int64 indices of the kept prompts, rising
    share      kept prompts / all prompts
    mass       share of the positive score mass that is kept (1 when everything is kept)
    why_empty  None, or why the rule selected nothing: `all_scores_zero`, `target_not_positive`, `target_unreachable`,
               `count_is_zero`, `top_p_keeps_none` (with `kept: as_top_p`), `rule_keeps_none` (the rule gave no
               reason). Set even when `on_empty: keep_all` then kept every prompt.
    """

    kept: NDArray[np.int64]
    share: float
    mass: float
    why_empty: str | None = None

    def metrics(self) -> dict[str, float]:
        """Return the metrics `filter/kept_prompts`, `kept_share`, `kept_mass` and `empty` (1 if `why_empty` is set)."""
        return {
            "filter/kept_prompts": float(self.kept.size),
            "filter/kept_share": self.share,
            "filter/kept_mass": self.mass,
            "filter/empty": float(self.why_empty is not None),
        }


def select(
    scores: ArrayLike, config: FilterConfig, *, draws: ArrayLike | None = None, count: int | None = None
) -> Selection:
    """Apply the rule of `config` to scores [P].

    Candidates are all prompts, or those with |score| > 1e-10 unless `include_zero`. `keep: smallest` ranks upwards.
    A rule within groups keeps every prompt here (`select_within_group`).

    draws  [P] random numbers, for a rule that draws: it ranks by them as others by scores, the largest first
    count  number of prompts to keep, for `kept: as_top_p` (`top_p_count`); fewer where there are fewer candidates

    Raises RunError (class nan) if a score is not finite, except for `none` and rules within groups. Raises ValueError
    for scores or `draws` of a wrong shape, an unknown rule or direction, a needed `draws` or `count` that is missing,
    and `kept: as_top_p` with a rule that does not count.
    """
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"scores must have shape [prompts], not {array.shape}")
    everything, rule = np.arange(array.size), find_rule(config.rule)
    if config.rule == "none" or rule.within:
        return _selection(everything, array, None)
    if not np.isfinite(array).all():
        raise RunError(
            f"the filter's score {config.metric!r} is not a finite number for every prompt",
            failure_class="nan",
            fix="a standard deviation or variance needs a group size above ddof; otherwise the rewards are broken",
        )
    ranked_by = array
    if rule.draws:
        ranked_by = np.zeros(0) if draws is None else np.asarray(draws, dtype=np.float64)
    if ranked_by.shape != array.shape:
        raise ValueError(f"the rule {config.rule} needs draws [{array.size}], not {list(ranked_by.shape)}")
    if config.kept == "as_top_p" and count is None:
        raise ValueError("as_top_p needs the number of prompts that Top-p keeps")
    if config.keep not in ("largest", "smallest"):
        raise ValueError(f"unknown direction {config.keep!r}")
    candidates = everything if config.include_zero else np.flatnonzero(np.abs(array) > ZERO)
    why: str | None = "all_scores_zero"
    chosen = candidates
    if candidates.size:
        sign = 1.0 if config.keep == "largest" else -1.0
        of_candidates = ranked_by[candidates]
        ranking = Ranking(of_candidates, np.argsort(-sign * of_candidates, kind="stable"), sign, array.size)
        start, stop, why = _part(rule, ranking, config, count)
        chosen = candidates[ranking.order[start:stop]]
    if chosen.size == 0 and config.on_empty == "keep_all":
        chosen = everything
    return _selection(np.sort(chosen), array, why)


def _part(rule: Rule, ranking: Ranking, config: FilterConfig, count: int | None) -> Part:
    """Return what the rule keeps of a ranking, or the first `count` with `kept: as_top_p`."""
    if config.kept != "as_top_p":
        part: Part = rule.select(ranking, **rule.options(config))
        why = None if part.start < part.stop else part.why_empty or "rule_keeps_none"
        return part._replace(why_empty=why)
    if not rule.counts:
        raise ValueError(f"the rule {config.rule!r} cannot keep as many prompts as Top-p")
    return Part(0, count or 0, None if count else "top_p_keeps_none")


def _selection(kept: NDArray[np.int64], scores: NDArray[np.float64], why: str | None) -> Selection:
    positive = np.where(scores > 0, scores, 0.0)  # NaN counts as nothing here
    total, everything = positive.sum(), kept.size == scores.size
    # A dropped prompt leaves a zero in its place: the sum rounds as the total's does, and no share exceeds 1.
    mine = np.zeros_like(positive)
    mine[kept] = positive[kept]
    mass = 1.0 if everything else float(mine.sum() / total) if total > 0 else 0.0
    share = kept.size / scores.size if scores.size else 1.0
    return Selection(kept.astype(np.int64), share, mass, why)


def top_p_count(rewards: ArrayLike, ddof: int = 1) -> int:
    """Return how many prompts of a batch the paper's Top-p filter keeps: 90 % of the reward variance, slack .01.

    rewards  [P, G] episode returns
    ddof     of the variance over each group

    Raises RunError (class nan) where a variance is not a finite number.
    """
    config = replace(PAPER_TOP_P, ddof=ddof)
    return int(select(prompt_scores(rewards, config=config), config).kept.size)


def select_within_group(rewards: ArrayLike, config: FilterConfig, draws: ArrayLike | None = None) -> NDArray[np.int64]:
    """Return the indices in their groups, ascending, of the trajectories [P, n] that a rule within groups keeps.

    rewards  [P, G] episode returns
    config   its rule must be one within groups
    draws    [P, G] random numbers, needed by `random_within_group` only
    """
    rule = find_rule(config.rule)
    kept: NDArray[np.int64] = rule.select(np.asarray(rewards, dtype=np.float64), draws, **rule.options(config))
    return kept


# Adapt the update to the kept part of a batch: how many optimiser steps, and what is scaled by the kept share.


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
