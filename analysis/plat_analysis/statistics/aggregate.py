"""Summarise the scores of runs over many tasks, as in "Deep RL at the edge of the statistical precipice" (2021).

`scores` is one array for each task, with runs along its last axis. Tasks may have different numbers of runs; each task
counts equally. With equal numbers the values are those of the package rliable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat_analysis.statistics.intervals import LEVEL

Scores = Sequence[NDArray[np.float64]]  # a task each, [..., run]
Values = NDArray[np.float64]
RESAMPLES = 4000
BATCH = 250  # resamples that are held in memory at once
TRIMMED = 0.25  # of the runs, on each side of the interquartile mean


def mean(scores: Scores) -> Values:
    """Return the mean over tasks of each task's mean over runs, shape [...]."""
    return np.asarray(np.mean(_task_means(scores), axis=-1))


def median(scores: Scores) -> Values:
    """Return the median over tasks of each task's mean over runs, shape [...]."""
    return np.asarray(np.median(_task_means(scores), axis=-1))


def iqm(scores: Scores) -> Values:
    """Return the interquartile mean over all runs of all tasks, shape [...].

    It is the mean without the lowest and the highest quarter, as `scipy.stats.trim_mean(..., 0.25)` cuts them. A run of
    a task with n runs has the weight 1/n.
    """
    values = np.concatenate(scores, axis=-1)
    each = np.concatenate([np.full(task.shape[-1], 1 / task.shape[-1]) for task in scores]) / len(scores)
    order = np.argsort(values, axis=-1)
    upper = np.cumsum(each[order], axis=-1)  # share of the weight up to and including each run
    cut = int(TRIMMED * values.shape[-1]) / values.shape[-1]
    kept = np.clip(np.minimum(upper, 1 - cut) - np.maximum(upper - each[order], cut), 0, None)
    return np.asarray((np.take_along_axis(values, order, -1) * kept).sum(-1) / kept.sum(-1))


def optimality_gap(scores: Scores, target: float = 1.0) -> Values:
    """Return by how much runs fall short of `target` on average, shape [...]; one above it falls short by 0."""
    return target - mean([np.minimum(task, target) for task in scores])


def profile(scores: Scores, thresholds: ArrayLike) -> Values:
    """Return the share of runs with a score above each threshold, shape [threshold, ...] (score distribution)."""
    bounds = np.asarray(thresholds, float)
    shares = [(task[..., None, :] > bounds[:, None]).mean(axis=-1) for task in scores]
    return np.moveaxis(np.mean(shares, axis=0), -1, 0)


def improvement(scores: Scores, others: Scores) -> Values:
    """Return the probability that a run of `scores` beats one of `others` on a random task, shape [...].

    It is the mean over tasks of P(X > Y) + P(X = Y) / 2 over all pairs of runs (Mann and Whitney's U over n m).
    """
    shares = []
    for x, y in zip(scores, others, strict=True):
        above, equal = x[..., :, None] > y[..., None, :], x[..., :, None] == y[..., None, :]
        shares.append((above + 0.5 * equal).mean(axis=(-2, -1)))
    return np.asarray(np.mean(shares, axis=0))


def these_tasks(
    statistic: Callable[[Scores], Values], scores: Scores, resamples: int = RESAMPLES
) -> tuple[Values, Values]:
    """Return the 95 % interval (low, high) of a statistic over further runs of these tasks.

    It is the percentile bootstrap with runs resampled within each task, from a fixed seed. Limit: n runs of a task show
    (n - 1)/n of their variance, so that with three runs the interval of a mean has .82 of its width.

    Raises ValueError if a task has fewer than two runs.
    """
    from scipy.stats import bootstrap

    found = bootstrap(
        tuple(scores),
        lambda *drawn, axis: statistic(drawn),
        vectorized=True,
        n_resamples=resamples,
        batch=BATCH,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return np.asarray(found.low), np.asarray(found.high)


def tasks_like_these(
    statistic: Callable[[Scores], Values], scores: Scores, resamples: int = RESAMPLES
) -> tuple[Values, Values]:
    """Return the 95 % interval (low, high) of a statistic over tasks like these.

    It is the hierarchical percentile bootstrap: tasks are resampled, then runs within each drawn task. The statistic of
    a task's single run counts as it is, so one run of each task suffices.
    """
    random, tasks = np.random.default_rng(0), [np.asarray(task, float) for task in scores]
    if len(set(map(len, tasks))) == 1:
        counts = [min(BATCH, resamples - done) for done in range(0, resamples, BATCH)]
        found = np.concatenate([statistic(_drawn_at_once(random, np.stack(tasks), count)) for count in counts], axis=-1)
    else:
        found = np.stack([statistic(_drawn(random, tasks)) for _ in range(resamples)], axis=-1)
    low, high = np.quantile(found, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=-1)
    return low, high


def profile_at(thresholds: ArrayLike) -> Callable[[Scores], Values]:
    """Return `profile` as a statistic of scores alone."""
    return partial(profile, thresholds=thresholds)


def _task_means(scores: Scores) -> Values:
    return np.stack([task.mean(axis=-1) for task in scores], axis=-1)


def _drawn_at_once(random: np.random.Generator, tasks: Values, count: int) -> Scores:
    """Return `count` resamples, [resample, run] for each task drawn, of tasks with equal numbers of runs."""
    chosen = random.integers(len(tasks), size=(count, len(tasks), 1))
    runs = random.integers(tasks.shape[1], size=(count, *tasks.shape))
    return list(np.moveaxis(tasks[chosen, runs], 1, 0))


def _drawn(random: np.random.Generator, tasks: Scores) -> Scores:
    """Return runs drawn within tasks that are drawn themselves."""
    chosen = [tasks[index] for index in random.integers(len(tasks), size=len(tasks))]
    return [task[random.integers(len(task), size=len(task))] for task in chosen]
