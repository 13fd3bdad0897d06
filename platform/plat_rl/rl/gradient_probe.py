"""The gradient probe (section 3, figure 3): norms of the policy's gradient by the reward spread of prompts.

The probe plays a batch that is never trained on, at the current weights. It sorts the prompts by the standard deviation
of their returns, splits them into buckets of equal size, and takes the gradient of each loss term per bucket, as if
the bucket were a whole mini-batch:

    task      the policy loss. Advantages are those of the whole batch, so that buckets compare
    entropy   the entropy bonus times its coefficient, where that is not 0
    kl        the penalty for leaving the base model times its coefficient, where that is not 0

The paper prints one norm for its "regulariser" and does not say how it combines the last two. `gradient.halves` adds
their joint norm, and measures that tell signal from noise (`plat_rl.embedded.probe`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from plat_rl.rl.config import AlgorithmConfig, GradientConfig
from plat_rl.rl.statistics import trajectories_of, variance

# trajectories of each bucket -> norm of the gradient of each term
Norms = Callable[[Sequence[NDArray[np.int64]]], Sequence[Mapping[str, float]]]


def is_measured(step: int, config: GradientConfig, iterations: int) -> bool:
    """Return True if iteration `step` of `iterations` is probed.

    `config.every` asks for the first and every `config.every`-th after it (0: none). `config.times` asks for that many,
    spread evenly from the first to the last. An iteration is probed if either asks for it.
    """
    return (config.every > 0 and (step - 1) % config.every == 0) or step in _evenly(config.times, iterations)


def _evenly(times: int, iterations: int) -> set[int]:
    """Return `times` iterations from 1 to `iterations`, evenly spaced; a half rounds up."""
    gaps = max(1, times - 1)
    return {1 + (2 * number * (iterations - 1) + gaps) // (2 * gaps) for number in range(times)}


def terms_of(config: AlgorithmConfig) -> tuple[str, ...]:
    """Return "task", and "entropy" and "kl" where their coefficients are not 0: the terms of the policy's loss."""
    return ("task", *(["entropy"] if config.entropy_coef else []), *(["kl"] if config.kl_coef else []))


def quantile_buckets(spreads: NDArray[np.float64], count: int) -> list[NDArray[np.int64]]:
    """Return the indices of the prompts of each bucket, from the bucket with the smallest spreads to the largest.

    Indices within a bucket ascend. Sizes differ by at most one; the last buckets are empty if there are fewer prompts
    than `count`. Of prompts with equal spreads, those with smaller indices come into earlier buckets.
    """
    return [np.sort(part) for part in np.array_split(np.argsort(spreads, kind="stable"), count)]


def gradient_metrics(returns: NDArray[np.float64], config: GradientConfig, norms: Norms) -> dict[str, float]:
    """Return the `grad/` metrics of a batch with returns (P, G), whose trajectories are numbered prompt after prompt.

    grad/q1/ to grad/q<buckets>/, from the smallest spread to the largest: `task`, `entropy` and `kl` as in the module,
    `reward_std_mean`, `_min` and `_max` of the prompts' standard deviations (ddof 1), and the number of `prompts`.

    norms  a function: the numbers of each bucket's trajectories -> each bucket's `task`, `entropy` and `kl`
    """
    spreads = np.sqrt(variance(returns, ddof=1))
    buckets = quantile_buckets(spreads, config.buckets)
    trajectories = [trajectories_of(bucket, returns.shape[1]) for bucket in buckets]
    metrics: dict[str, float] = {}
    for number, (bucket, measured) in enumerate(zip(buckets, norms(trajectories), strict=True), start=1):
        own = spreads[bucket]
        facts = {
            **measured,
            "reward_std_mean": own.mean(),
            "reward_std_min": own.min(),
            "reward_std_max": own.max(),
            "prompts": len(bucket),
        }
        metrics |= {f"grad/q{number}/{name}": float(value) for name, value in facts.items()}
    return metrics
