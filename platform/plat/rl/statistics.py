"""What the returns of one batch say before any filtering: the `rollout/` metrics and Table 8's summary."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from plat.rl.scores import ZERO, spread


def rv_summary(scores: ArrayLike) -> dict[str, float]:
    """Table 8: mean, std (ddof 1), var, min, max and std/mean of the prompts' reward spread scores [P].

    `std_over_mean` is the paper's predictor of whether filtering helps (1.29 and 1.16 helped, 0.33 hurt); NaN for a
    mean of zero or a single prompt.
    """
    array = np.asarray(scores, dtype=np.float64)
    mean, var = float(array.mean()), float(spread(array, ddof=1))
    return {
        "mean": mean,
        "std": math.sqrt(var),
        "var": var,
        "min": float(array.min()),
        "max": float(array.max()),
        "std_over_mean": math.sqrt(var) / mean if mean > 0 else math.nan,
    }


def rollout_metrics(rewards: ArrayLike) -> dict[str, float]:
    """The `rollout/` metrics that returns [P, G] alone determine, with sample statistics (ddof 1).

    `reward_std` and `reward_var` are means over prompts; `rv_std_over_mean` is taken over the prompts' standard
    deviations, which is what the ranges printed in Tables 6 and 8 can only be. At G = 1 the spreads are NaN.
    """
    array = np.asarray(rewards, dtype=np.float64)
    variances = spread(array, ddof=1)
    deviations = np.sqrt(variances)
    return {
        "rollout/return_mean": float(array.mean()),
        "rollout/reward_std": float(deviations.mean()),
        "rollout/reward_var": float(variances.mean()),
        "rollout/rv_std_over_mean": rv_summary(deviations)["std_over_mean"],
        "rollout/zero_variance_prompts": float(np.count_nonzero(deviations <= ZERO)),
    }
