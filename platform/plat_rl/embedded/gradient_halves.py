"""Separate signal and noise in a bucket's task gradient, by two random halves of its trajectories (figure 3).

Sampling noise biases the norm of a gradient upwards. So each prompt's trajectories are split into two halves with their
own advantages: given the prompts, the noise of the two gradients is independent. Their inner product estimates the
squared norm of the expected gradient without bias. Their cosine shows the share of signal.

The null permutes the returns among the trajectories of each prompt, each at its trajectory's last turn: rewards of the
same spread, independent of the actions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from plat_rl.embedded.batch import Batch, is_last_turn
from plat_rl.embedded.learner import Learner
from plat_rl.rl.gradient_probe import quantile_buckets
from plat_rl.rl.statistics import trajectories_of, variance

ROUNDING = 1e-8  # a gradient of this norm is rounding, and has no direction


def halves_metrics(
    learner: Learner, batch: Batch, buckets: int, size: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return the `grad/` metrics of halves at the current weights; nothing is changed.

    batch   prompt after prompt, each with `size` trajectories (4 or more; of an odd number the last one is left out)

    grad/q<n>/halves_inner, halves_cosine    of the task gradients of the two halves of a bucket
    grad/q<n>/null_task                      norm of the bucket's task gradient under the null
    grad/q<n>/null_inner, null_cosine        of its halves under the null

    A cosine is left out where a half has no gradient.
    """
    returns = batch.returns.reshape(-1, size)
    parts = quantile_buckets(np.sqrt(variance(returns, ddof=1)), buckets)
    halves = random_halves(len(returns), size, rng)
    null = with_returns(batch, rng.permuted(returns, axis=1).ravel())
    whole = learner.gradients(null, [trajectories_of(part, size) for part in parts], task_only=True)
    metrics = {f"grad/q{number}/null_task": float(own["task"].norm()) for number, own in enumerate(whole, start=1)}
    for name, rewarded in (("halves", batch), ("null", null)):
        half_parts = [trajectories_of(part, size // 2) for part in parts]
        one, other = (learner.gradients(rewarded.select(half), half_parts, task_only=True) for half in halves)
        for number, (a, b) in enumerate(zip(one, other, strict=True), start=1):
            metrics |= _agreement(f"grad/q{number}/{name}", a["task"], b["task"])
    return metrics


def random_halves(prompts: int, size: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Return the trajectory indices of two disjoint halves, rising, each with `size // 2` of every prompt."""
    order = rng.permuted(np.tile(np.arange(size), (prompts, 1)), axis=1)
    starts = size * np.arange(prompts)[:, None]
    half = size // 2
    return [np.sort(starts + members, axis=1).ravel() for members in (order[:, :half], order[:, half : 2 * half])]


def with_returns(batch: Batch, returns: NDArray[np.float64]) -> Batch:
    """Return a copy of the batch with these returns (N,), each at the last turn of its trajectory."""
    rewards = np.zeros_like(batch.rewards)
    rewards[is_last_turn(batch)] = returns
    return replace(batch, rewards=rewards)


def _agreement(prefix: str, one: torch.Tensor, other: torch.Tensor) -> dict[str, float]:
    inner, norms = float(torch.dot(one.double(), other.double())), (float(one.norm()), float(other.norm()))
    cosine = {f"{prefix}_cosine": inner / (norms[0] * norms[1])} if min(norms) > ROUNDING else {}
    return {f"{prefix}_inner": inner} | cosine
