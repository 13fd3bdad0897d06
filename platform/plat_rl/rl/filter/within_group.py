"""Trajectories of each prompt with the largest spread of returns (Table 7)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from plat_rl.rl.filter.rule import rule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
