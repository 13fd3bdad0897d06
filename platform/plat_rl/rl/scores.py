"""Compute one score per prompt, by which the filter ranks prompts (section 3, "reward variance", and Table 9).

`prompt_scores` is pure and works in float64. Rewards are episode returns **including format penalties, before any
normalisation**, as in the released code. `metric` names the statistic over the G trajectories of a prompt:

    reward_std, reward_variance      spread of the returns, `ddof` 0 or 1 (the released code's "reward_variance" is
                                     reward_std with ddof 1; the paper's RV is reward_variance with ddof 1)
    reward, reward_sum               mean and sum of the returns
    entropy                          mean of the trajectories' token-mean entropies, nats
    entropy_std, entropy_variance    their spread (the released code's "entropy_variance" is entropy_std with ddof 1)
    length                           mean number of response tokens
    success, failure                 share of the trajectories that solved their instance, and that did not
    success_variance                 variance of success, 0 where all trajectories solved it or none

A variance over G <= ddof trajectories is undefined and returned as NaN (the filter refuses it).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat_rl.rl.config import FilterConfig

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
