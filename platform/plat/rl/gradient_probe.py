"""The gradient probe (section 3, figure 3): norms of the policy's gradient, by the reward spread of prompts.

A batch that nothing is learnt from is played at the current weights. Its prompts are sorted by the standard deviation
of their returns and split into buckets of equal size. Of each bucket the gradient of each term of the policy's loss is
taken as if the bucket were a mini-batch of its own:

    task      the policy loss. Advantages are those of the whole batch, so that buckets compare
    entropy   the entropy bonus times its coefficient, where that is not 0
    kl        the penalty for leaving the base model times its coefficient, where that is not 0

The paper's "regulariser" is one norm, and how it combines the last two is not said. With `gradient.halves` there is
one of both together as well, and what tells signal from noise (`plat.trainer.embedded.gradient_halves`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from plat.rl.config import AlgorithmConfig, GradientConfig
from plat.rl.scores import spread

# trajectories of each bucket -> norm of the gradient of each term
Norms = Callable[[Sequence[NDArray[np.int64]]], Sequence[Mapping[str, float]]]


def is_measured(step: int, config: GradientConfig, iterations: int) -> bool:
    """Whether iteration `step` of so many is probed: the first and every `config.every` after it, and `config.times`
    of them from the first to the last."""
    return (config.every > 0 and (step - 1) % config.every == 0) or step in _evenly(config.times, iterations)


def _evenly(times: int, iterations: int) -> set[int]:
    """So many iterations from 1 to `iterations`, as evenly as whole numbers allow; of a half the later one."""
    gaps = max(1, times - 1)
    return {1 + (2 * number * (iterations - 1) + gaps) // (2 * gaps) for number in range(times)}


def terms_of(config: AlgorithmConfig) -> tuple[str, ...]:
    """The terms of an algorithm's policy loss."""
    return ("task", *(["entropy"] if config.entropy_coef else []), *(["kl"] if config.kl_coef else []))


def quantile_buckets(spreads: NDArray[np.float64], count: int) -> list[NDArray[np.int64]]:
    """The numbers of the prompts of each bucket, from the smallest spreads to the largest.

    Sizes differ by at most one; prompts of equal spread are put in order of their numbers.
    """
    return [np.sort(part) for part in np.array_split(np.argsort(spreads, kind="stable"), count)]


def members_of(prompts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The numbers of the trajectories of these prompts, in groups of `size`."""
    return (prompts[:, None] * size + np.arange(size)).ravel()


def gradient_metrics(returns: NDArray[np.float64], config: GradientConfig, norms: Norms) -> dict[str, float]:
    """The `grad/` metrics of a batch with returns (P, G), whose trajectories are numbered prompt after prompt.

    grad/q1/ to grad/q<buckets>/, from the smallest spread to the largest: `task`, `entropy` and `kl` as in the module,
    `reward_std_mean`, `_min` and `_max` of the prompts' standard deviations (ddof 1), and the number of `prompts`.
    """
    spreads = np.sqrt(spread(returns, ddof=1))
    buckets = quantile_buckets(spreads, config.buckets)
    trajectories = [members_of(bucket, returns.shape[1]) for bucket in buckets]
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
