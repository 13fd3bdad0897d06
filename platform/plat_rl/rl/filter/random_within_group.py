"""Trajectories of each prompt at random: the control of `within_group`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plat_rl.rl.filter.rule import rule
from plat_rl.rl.filter.within_group import kept_of_group

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
