"""Which prompts of a batch are kept for the update (section 4, Algorithm 1; Table 9; released `rollout_filter.py`).

`select(scores, config)` is pure: scores [P] in, kept prompt indices in their original order out. Rules:

    none           every prompt
    top_p          smallest prefix of the ranking whose mass reaches value * sum(scores) - eps. The walk ends at a score
                   <= 0; a target <= 0 or out of reach selects nothing; value >= 1 keeps every candidate. A mass that
                   equals the target but for rounding reaches it
    top_p_softmax  the same with softmax(scores) as mass and no eps: at least one prompt (released Table 4 scripts)
    top_k          floor(value * P) prompts, at least one (`at_least_one: false`: the paper's floor(rho N), maybe none)
    top_k_abs      int(value) prompts, at least one
    min_p          largest: score >= value * max; smallest: score <= min / value. With a value below 1, a negative
                   extreme keeps none
    percentile     positions round(low * N) to round(high * N) of the ranking of N candidates, at least one (Table 6)
    random         floor(value * P) prompts, at least one, whatever their scores: the control of every other rule
    within_group   every prompt; the choice is inside each group: `select_within_group` (Table 7)
    random_within_group  likewise, whatever the rewards: the control of within_group

With `kept: as_top_p`, `top_k` and `random` keep as many prompts as the paper's Top-p would keep of the same batch
(`top_p_count`) in place of a share of their own, so that ways to choose are compared at equal numbers of prompts.

Candidates are all prompts, or those with |score| > 1e-10 unless `include_zero`. Sorting is stable: equal scores keep
their order. `keep: smallest` ranks upwards. A batch of which nothing is kept says why (`Selection.why_empty`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat.errors import RunError
from plat.rl.config import KEEP_EVERY_PROMPT, FilterConfig
from plat.rl.scores import ZERO, prompt_scores, spread

__all__ = ["Selection", "StepPlan", "prompt_scores", "select", "select_within_group", "step_plan", "top_p_count"]

SLACK = 1e-10  # of the min_p thresholds (released code)
ROUNDING = 1e-12  # of the whole mass: two masses that differ by less are equal, their difference is rounding
PAPER_TOP_P = FilterConfig(rule="top_p", metric="reward_variance", value=0.9, eps=0.01)  # conf/filter/top_p.yaml


@dataclass(frozen=True)
class Selection:
    """The outcome of a filter.

    kept       int64 indices of the kept prompts, rising
    share      kept prompts / all prompts
    mass       share of the positive score mass that is kept (1 when everything is kept)
    why_empty  None, or why the rule selected nothing: `all_scores_zero`, `target_not_positive`, `target_unreachable`,
               `count_is_zero`, `top_p_keeps_none` (with `kept: as_top_p`). Set even when
               `on_empty: keep_all` then kept every prompt.
    """

    kept: NDArray[np.int64]
    share: float
    mass: float
    why_empty: str | None = None

    @property
    def skipped(self) -> bool:
        """Nothing is kept: there is no update in this iteration."""
        return self.kept.size == 0

    def metrics(self) -> dict[str, float]:
        """The `filter/` metrics that the selection alone knows."""
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

    draws  [P] random numbers, needed by the rule `random` only: it keeps the prompts with the largest
    count  how many prompts to keep, needed with `kept: as_top_p` only (`top_p_count`); fewer where there are fewer
           candidates

    RunError (class nan): a score is not finite and the rule needs it. ValueError: unknown rule or direction, or `draws`
    or `count` is needed and missing.
    """
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"scores must have shape [prompts], not {array.shape}")
    everything = np.arange(array.size)
    if config.rule in KEEP_EVERY_PROMPT:
        return _selection(everything, array, None)
    if not np.isfinite(array).all():
        raise RunError(
            f"the filter's score {config.metric!r} is not a finite number for every prompt",
            failure_class="nan",
            mend="a standard deviation or variance needs a group size above ddof; otherwise the rewards are broken",
        )
    ranked_by = array
    if config.rule == "random":
        ranked_by = np.zeros(0) if draws is None else np.asarray(draws, dtype=np.float64)
    if ranked_by.shape != array.shape:
        raise ValueError(f"the rule random needs draws [{array.size}], not {list(ranked_by.shape)}")
    if config.kept == "as_top_p" and count is None:
        raise ValueError("as_top_p needs the number of prompts that Top-p keeps")
    candidates = everything if config.include_zero else np.flatnonzero(np.abs(array) > ZERO)
    why: str | None
    if candidates.size == 0:
        chosen, why = candidates, "all_scores_zero"
    else:
        local, why = _rule(ranked_by[candidates], array.size, config, count)
        chosen = candidates[local]
    if chosen.size == 0 and config.on_empty == "keep_all":
        chosen = everything
    return _selection(np.sort(chosen), array, why)


def _selection(kept: NDArray[np.int64], scores: NDArray[np.float64], why: str | None) -> Selection:
    positive = np.where(scores > 0, scores, 0.0)  # NaN counts as nothing here
    total, everything = positive.sum(), kept.size == scores.size
    # A dropped prompt leaves a zero in its place: the sum rounds as the total's does, and no share exceeds 1.
    mine = np.zeros_like(positive)
    mine[kept] = positive[kept]
    mass = 1.0 if everything else float(mine.sum() / total) if total > 0 else 0.0
    share = kept.size / scores.size if scores.size else 1.0
    return Selection(kept.astype(np.int64), share, mass, why)


def _rule(
    scores: NDArray[np.float64], prompts: int, config: FilterConfig, as_many: int | None
) -> tuple[NDArray[np.int64], str | None]:
    """Positions among the candidates, in any order, and why there are none. `as_many`: see `count` of `select`."""
    if config.keep not in ("largest", "smallest"):
        raise ValueError(f"unknown direction {config.keep!r}")
    sign = 1.0 if config.keep == "largest" else -1.0
    order = np.argsort(-sign * scores, kind="stable")
    value, count = config.value, scores.size
    if config.kept == "as_top_p":
        if config.rule not in ("top_k", "random"):
            raise ValueError(f"the rule {config.rule!r} cannot keep as many prompts as Top-p")
        return order[:as_many], None if as_many else "top_p_keeps_none"
    if config.rule in ("top_p", "top_p_softmax") and value >= 1.0:
        return order, None
    if config.rule == "top_p":
        rounding = ROUNDING * float(np.abs(scores).sum())
        return _top_p(scores[order], order, value * scores.sum() - config.eps, rounding)
    if config.rule == "top_p_softmax":
        weights = np.exp(sign * scores - (sign * scores).max())[order]
        reached = np.searchsorted(np.cumsum(weights / weights.sum()), value - ROUNDING)
        return order[: min(int(reached) + 1, count)], None
    if config.rule in ("top_k", "top_k_abs", "random"):
        # 1e-9: the decimal 0.29 of 100 prompts is 29, though 0.29 * 100 is a bit less in floating point
        k = int(value) if config.rule == "top_k_abs" else math.floor(value * prompts + 1e-9)
        if config.rule != "top_k" or config.at_least_one:
            k = max(k, 1)
        return order[: min(k, count)], None if k else "count_is_zero"
    if config.rule == "min_p":
        # score <= min / value, without the division
        near = scores >= value * scores.max() - SLACK if sign > 0 else value * scores <= scores.min() + SLACK
        return np.flatnonzero(near), None if near.any() else "target_unreachable"
    if config.rule == "percentile":
        low = min(round(config.low * count), count - 1)
        return order[low : max(round(config.high * count), low + 1)], None
    raise ValueError(f"unknown filter rule {config.rule!r}")


def _top_p(
    ranked: NDArray[np.float64], order: NDArray[np.int64], target: float, rounding: float
) -> tuple[NDArray[np.int64], str | None]:
    """The prefix of `order` whose scores, `ranked`, reach the target mass within `rounding`."""
    if target <= rounding:
        return order[:0], "target_not_positive"
    stops = np.flatnonzero(ranked <= 0)
    usable = int(stops[0]) if stops.size else ranked.size
    reached = np.flatnonzero(np.cumsum(ranked[:usable]) >= target - rounding)
    if reached.size == 0:
        return order[:0], "target_unreachable"
    return order[: int(reached[0]) + 1], None


def top_p_count(rewards: ArrayLike, ddof: int = 1) -> int:
    """How many prompts of a batch the paper's Top-p filter keeps: 90 % of the reward variance, slack .01.

    rewards  [P, G] episode returns
    ddof     of the variance over each group

    RunError (class nan): a variance is not a finite number.
    """
    config = replace(PAPER_TOP_P, ddof=ddof)
    return int(select(prompt_scores(rewards, config=config), config).kept.size)


def select_within_group(
    rewards: ArrayLike, value: float, rounding: str = "floor", draws: ArrayLike | None = None
) -> NDArray[np.int64]:
    """Trajectory-level filtering (Table 7): of each prompt's G trajectories the n with the largest variance of returns.
    Such a subset is always "the j lowest plus the n - j highest"; the smallest j wins ties.

    rewards   [P, G] episode returns
    value     share of the trajectories kept, 0 < value <= 1
    rounding  floor: n = floor(value * G); round: the nearest whole number, half to even (released branch). At least 1
    draws     [P, G] numbers of which the n smallest choose the trajectories, whatever their returns

    Returns int64 [P, n], trajectory indices within each group, rising. ValueError: unknown rounding.
    """
    if rounding not in ("floor", "round"):
        raise ValueError(f"unknown rounding {rounding!r}")
    array = np.asarray(rewards, dtype=np.float64)
    prompts, group = array.shape
    exact = round(value * group, 9)  # the decimal 0.29 of 100 is 29, though 0.29 * 100 is a bit less in floating point
    n = min(group, max(1, math.floor(exact) if rounding == "floor" else round(exact)))
    if draws is not None:
        return np.sort(np.argsort(draws, axis=1, kind="stable")[:, :n], axis=1).astype(np.int64)
    order = np.argsort(array, axis=1, kind="stable")
    # positions[j] = the j lowest and the n - j highest of the ranking
    positions = np.array([[*range(j), *range(group - n + j, group)] for j in range(n + 1)])
    choices = order[:, positions]  # [P, n + 1, n]
    variances = spread(np.take_along_axis(array[:, None, :], choices, axis=2), ddof=0)
    best = variances.max(axis=1, keepdims=True)
    j = np.argmax(variances >= best * (1 - 1e-12), axis=1)  # argmax of booleans: the first True
    return np.sort(choices[np.arange(prompts), j], axis=1).astype(np.int64)


@dataclass(frozen=True)
class StepPlan:
    """How the step is adapted to the kept part of the batch.

    updates          optimiser steps in this iteration; 0 when nothing is kept
    loss_scale       multiplies the whole loss (under Adam this does next to nothing)
    advantage_scale  multiplies advantages only, as the released code: the task weakens against the regularisers
    lr_scale         multiplies the learning rate
    share            kept / total
    """

    updates: int
    loss_scale: float
    advantage_scale: float
    lr_scale: float
    share: float


def step_plan(kept: int, total: int, config: FilterConfig, mini_batches: int) -> StepPlan:
    """How many updates on what scale, for `kept` of `total` prompts (or trajectories: the unit cancels).

    updates `same_count`: always `mini_batches` updates, each on fewer rows (the paper's "effective mini-batch shrunk");
    `fixed_size`: mini-batches keep their size, so ceil(kept / total * mini_batches) updates (the released code).
    scale: none | loss | advantage | learning_rate, by the kept share (`linear`) or its square root (`sqrt`).
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
        share=share,
    )
