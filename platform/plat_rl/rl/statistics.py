"""Summarise the returns of one batch before any filtering: the `rollout/` metrics and Table 8."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat_rl.rl.config import FilterConfig


def std_over_mean(scores: ArrayLike) -> float:
    """Return the standard deviation (ddof 1) over the mean of the prompts' reward spreads [P] (Table 8).

    This is the paper's predictor of whether filtering helps (1.29 and 1.16 helped, 0.33 hurt). NaN for a mean of zero
    or a single prompt.
    """
    mean = float(np.asarray(scores, dtype=np.float64).mean())
    return math.sqrt(float(variance(scores, ddof=1))) / mean if mean > 0 else math.nan


def rollout_metrics(rewards: ArrayLike) -> dict[str, float]:
    """Return the `rollout/` metrics that need only returns [P, G], with sample statistics (ddof 1).

    `return_mean`, `reward_std` and `reward_var` are means over prompts, `zero_variance_prompts` is a number of prompts.
    `rv_std_over_mean` is taken over the prompts' standard deviations, the only reading that fits the ranges printed in
    Tables 6 and 8. At G = 1 the spreads are NaN, and no prompt counts as one of zero variance.
    """
    array = np.asarray(rewards, dtype=np.float64)
    variances = variance(array, ddof=1)
    deviations = np.sqrt(variances)
    return {
        "rollout/return_mean": float(array.mean()),
        "rollout/reward_std": float(deviations.mean()),
        "rollout/reward_var": float(variances.mean()),
        "rollout/rv_std_over_mean": std_over_mean(deviations),
        "rollout/zero_variance_prompts": float(np.count_nonzero(deviations <= ZERO)),
    }


EASY, HARD = 0.8, 0.2  # a prompt is easy from this share of successful trajectories on, hard up to that one
QUANTILES = {"min": 0.0, "q25": 0.25, "median": 0.5, "q75": 0.75, "max": 1.0}


def prompt_metrics(rewards: ArrayLike, success: ArrayLike) -> dict[str, float]:
    """Return the `rollout/` metrics of the spread of returns [P, G] over prompts, given the `success` [P, G] of each.

    reward_var_min, _q25, _median, _q75, _max     quantiles over prompts of the returns' variance (ddof 1)
    easy_prompts, mixed_prompts, hard_prompts     number of prompts solved in a share >= EASY, between, and <= HARD
    reward_var_within_success                     mean over prompts of the variance left when each return is compared
                                                  with those of the same success: 0 if returns say no more than success,
                                                  whose variance is p (1 - p)
    """
    array, solved = np.asarray(rewards, dtype=np.float64), np.asarray(success, dtype=bool)
    size = array.shape[1]
    shares = solved.mean(axis=1)
    # Sums of squares within the failures and within the successes of each prompt; spread is exactly 0 for equal values.
    residual = [
        sum(float(variance(own, ddof=0)) * len(own) for own in (row[won], row[~won]) if len(own)) / max(1, size - 1)
        for row, won in zip(array, solved, strict=True)
    ]
    variances = variance(array, ddof=1)
    return {
        **{f"rollout/reward_var_{name}": float(np.quantile(variances, q)) for name, q in QUANTILES.items()},
        "rollout/easy_prompts": float((shares >= EASY).sum()),
        "rollout/mixed_prompts": float(((shares > HARD) & (shares < EASY)).sum()),
        "rollout/hard_prompts": float((shares <= HARD).sum()),
        "rollout/reward_var_within_success": float(np.mean(residual)),
    }


# Compute one score per prompt, by which the filter ranks prompts (section 3, "reward variance", and Table 9).
#
# `prompt_scores` is pure and works in float64. Rewards are episode returns **including format penalties, before any
# normalisation**, as in the released code. `metric` names the statistic over the G trajectories of a prompt:
#
#     reward_std, reward_variance      spread of the returns, `ddof` 0 or 1 (the released code's "reward_variance" is
#                                      reward_std with ddof 1; the paper's RV is reward_variance with ddof 1)
#     reward, reward_sum               mean and sum of the returns
#     entropy                          mean of the trajectories' token-mean entropies, nats
#     entropy_std, entropy_variance    their spread (the released code's "entropy_variance" is entropy_std with ddof 1)
#     length                           mean number of response tokens
#     success, failure                 share of the trajectories that solved their instance, and that did not
#     success_variance                 variance of success, 0 where all trajectories solved it or none
#
# A variance over G <= ddof trajectories is undefined and returned as NaN (the filter refuses it).

ZERO = 1e-10  # a score this small is zero (released code)


def variance(values: ArrayLike, ddof: int) -> NDArray[np.float64]:
    """Return the variance over the last axis of `values[..., G]`: NaN if G <= ddof, exactly 0 for equal values."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape[-1] <= ddof:
        return np.full(array.shape[:-1], np.nan)
    exact = array.var(axis=-1, ddof=ddof)
    # The mean of equal numbers may be off by one bit; a prompt without spread must score exactly zero.
    return np.where(array.max(axis=-1) == array.min(axis=-1), 0.0, exact)


def trajectories_of(prompts: ArrayLike, group_size: int, members: ArrayLike | None = None) -> NDArray[np.int64]:
    """Return the numbers (n * G,) of the trajectories of these prompts (n,), prompt after prompt.

    members   (n, k) use only these trajectories of each group, numbered from 0; None: all of them
    """
    chosen = np.arange(group_size) if members is None else np.asarray(members, dtype=np.int64)
    return (np.asarray(prompts, dtype=np.int64)[:, None] * group_size + chosen).ravel()


def prompt_scores(
    rewards: ArrayLike,
    entropies: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    config: FilterConfig | None = None,
    successes: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Return the score of each prompt by `config.metric` (see the module), float64 [P].

    rewards    [P, G] episode returns
    entropies  [P, G] token-mean entropy of each trajectory (nats); needed by the entropy metrics only
    lengths    [P, G] response tokens of each trajectory; needed by `length` only
    config     None: the defaults of FilterConfig, whose metric is `reward_std`
    successes  [P, G] True if the trajectory solved its instance; needed by `success`, `failure`, `success_variance`

    Raises ValueError if a needed array is missing or not [P, G] with G >= 1, or the metric is unknown.
    """
    config = config or FilterConfig()
    of, _, statistic = config.metric.partition("_")
    solved = (successes, "successes")
    given: dict[str, tuple[ArrayLike | None, str]] = {"success": solved, "failure": solved}
    given |= {"reward": (rewards, "rewards"), "entropy": (entropies, "entropies"), "length": (lengths, "lengths")}
    if of not in given or statistic not in ("", "std", "variance", "sum"):
        raise ValueError(f"unknown filter metric {config.metric!r}")
    values = _matrix(*given[of])
    if statistic == "std":
        return np.sqrt(variance(values, config.ddof))
    if statistic == "variance":
        return variance(values, config.ddof)
    if statistic == "sum":
        return np.asarray(values.sum(axis=1))
    return np.asarray((1.0 - values if of == "failure" else values).mean(axis=1))


def _matrix(values: ArrayLike | None, name: str) -> NDArray[np.float64]:
    if values is None:
        raise ValueError(f"this filter metric needs {name}")
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} must have shape [prompts, group], not {array.shape}")
    return array
