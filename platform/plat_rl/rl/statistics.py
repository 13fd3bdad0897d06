"""Summarise the returns of one batch before any filtering: the `rollout/` metrics and Table 8."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from plat_rl.rl.scores import ZERO, variance


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
