"""The filter rules: which prompts of a batch, or which trajectories of each prompt, are kept."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from plat_rl.rl.filter.rule import Part, Ranking, rule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@rule()
def none(ranking: Ranking) -> Part:
    """Keep everything."""
    return Part(0, ranking.order.size)


# Top-p: the fewest prompts that hold a share of the score mass (section 4, Algorithm 1).

ROUNDING = 1e-12  # of the whole mass: two masses that differ by less are equal


@rule(share=True)
def top_p(ranking: Ranking, *, value: float, eps: float) -> Part:
    """Keep the smallest prefix whose scores add up to `value * sum(scores) - eps`.

    The prefix ends before the first score <= 0. `value >= 1` keeps every candidate. Otherwise a target <= 0 keeps
    nothing, and so does one that the prefix does not reach. Differences within the rounding error do not count.
    """
    import numpy as np

    scores, ranked = ranking.scores, ranking.scores[ranking.order]
    if value >= 1.0:
        return Part(0, scores.size)
    target, rounding = value * scores.sum() - eps, ROUNDING * float(np.abs(scores).sum())
    if target <= rounding:
        return Part(0, 0, "target_not_positive")
    stops = np.flatnonzero(ranked <= 0)
    usable = int(stops[0]) if stops.size else ranked.size
    reached = np.flatnonzero(np.cumsum(ranked[:usable]) >= target - rounding)
    return Part(0, int(reached[0]) + 1) if reached.size else Part(0, 0, "target_unreachable")


# Top-p over softmax(scores), as in the released scripts of Table 4.


@rule(share=True)
def top_p_softmax(ranking: Ranking, *, value: float) -> Part:
    """Keep the smallest prefix whose softmax weights add up to `value`: at least one prompt, and all for 1."""
    import numpy as np

    signed = ranking.sign * ranking.scores
    if value >= 1.0:
        return Part(0, signed.size)
    weights = np.exp(signed - signed.max())[ranking.order]
    reached = np.searchsorted(np.cumsum(weights / weights.sum()), value - ROUNDING)
    return Part(0, min(int(reached) + 1, signed.size))


# Top-k: a fixed share of the prompts of a batch.


def share_of(value: float, prompts: int) -> int:
    """Return floor(value * prompts), where 0.29 of 100 is 29 although 0.29 * 100 is a bit less in floating point."""
    return math.floor(value * prompts + 1e-9)


@rule(counts=True, share=True)
def top_k(ranking: Ranking, *, value: float, at_least_one: bool) -> Part:
    """Keep the first floor(value * P) candidates of a batch of P prompts (paper: floor(rho N)), or all if fewer.

    If that is 0, keep one with `at_least_one`, else none.
    """
    k = max(share_of(value, ranking.prompts), int(at_least_one))
    return Part(0, min(k, ranking.order.size), None if k else "count_is_zero")


# Top-k with a number of prompts instead of a share.


@rule()
def top_k_abs(ranking: Ranking, *, value: float) -> Part:
    """Keep the first int(value) candidates, at least one, or all if there are fewer."""
    return Part(0, min(max(int(value), 1), ranking.order.size))


# Min-p: the prompts whose score is close to the extreme one.

SLACK = 1e-10  # of the threshold (released code)


@rule(share=True)
def min_p(ranking: Ranking, *, value: float) -> Part:
    """Keep scores >= value * max; with `keep: smallest`, scores <= min / value.

    If value is below 1 and that max (or min) is negative, nothing is kept, with the reason `target_unreachable`.
    """
    scores = ranking.scores
    # value * score <= min: score <= min / value without the division
    near = scores >= value * scores.max() - SLACK if ranking.sign > 0 else value * scores <= scores.min() + SLACK
    kept = int(near.sum())  # a prefix of the ranking, because the condition is monotone in the score
    return Part(0, kept, None if kept else "target_unreachable")


# A band of the ranking (Table 6).


@rule()
def percentile(ranking: Ranking, *, low: float, high: float) -> Part:
    """Keep positions round(low * N) to round(high * N) of the ranking of N candidates, at least one."""
    count = ranking.order.size
    start = min(round(low * count), count - 1)
    return Part(start, max(round(high * count), start + 1))


# Prompts at random, whatever their scores: the control of every other rule.


@rule(draws=True, counts=True, share=True)
def random(ranking: Ranking, *, value: float) -> Part:
    """Keep floor(value * P) candidates, at least one: those with the largest draws (`keep: smallest`: the smallest)."""
    return Part(0, min(max(share_of(value, ranking.prompts), 1), ranking.order.size))


# Trajectories of each prompt with the largest spread of returns (Table 7).


def kept_of_group(value: float, rounding: str, group: int) -> int:
    """Return how many of G trajectories are kept: at least 1.

    `rounding` is "floor" for floor(value * G), or "round" for the nearest whole number, half to even (released branch).
    Raises ValueError for another one.
    """
    if rounding not in ("floor", "round"):
        raise ValueError(f"unknown rounding {rounding!r}")
    exact = round(value * group, 9)  # 0.29 of 100 is 29, although 0.29 * 100 is a bit less in floating point
    return min(group, max(1, math.floor(exact) if rounding == "floor" else round(exact)))


@rule(within=True, share=True)
def within_group(
    returns: NDArray[np.float64], draws: None, *, value: float, within_group_rounding: str
) -> NDArray[np.int64]:
    """Keep the n trajectories of each prompt whose returns have the largest variance.

    returns  [prompts, group]
    value    share of each group to keep; n = `kept_of_group(value, within_group_rounding, group)`

    Returns the indices of the kept trajectories in their groups, ascending: [prompts, n]. Such a subset is always the j
    lowest and the n - j highest returns. The smallest j wins ties.
    """
    import numpy as np

    from plat_rl.rl.statistics import variance

    prompts, group = returns.shape
    n = kept_of_group(value, within_group_rounding, group)
    order = np.argsort(returns, axis=1, kind="stable")
    # positions[j] = the j lowest and the n - j highest of the ranking
    positions = np.array([[*range(j), *range(group - n + j, group)] for j in range(n + 1)])
    choices = order[:, positions]  # [P, n + 1, n]
    variances = variance(np.take_along_axis(returns[:, None, :], choices, axis=2), ddof=0)
    best = variances.max(axis=1, keepdims=True)
    j = np.argmax(variances >= best * (1 - 1e-12), axis=1)  # argmax of booleans: the first True
    return np.sort(choices[np.arange(prompts), j], axis=1).astype(np.int64)


# Trajectories of each prompt at random: the control of `within_group`.


@rule(within=True, draws=True, share=True)
def random_within_group(
    returns: NDArray[np.float64], draws: NDArray[np.float64], *, value: float, within_group_rounding: str
) -> NDArray[np.int64]:
    """Keep the n trajectories of each prompt with the smallest random numbers.

    returns  [prompts, group]; only its shape is used
    draws    [prompts, group], uniform random numbers
    value    share of each group to keep; n = `kept_of_group(value, within_group_rounding, group)`

    Returns the indices of the kept trajectories in their groups, ascending: [prompts, n].
    """
    import numpy as np

    n = kept_of_group(value, within_group_rounding, returns.shape[1])
    return np.sort(np.argsort(draws, axis=1, kind="stable")[:, :n], axis=1).astype(np.int64)
