"""Judge a change from few runs on many tasks: the tasks are the independent units, not the runs.

Two questions have two answers. *Tasks like these* (`over_tasks`): does the change hold on further tasks, if these are a
random sample of them? The spread between the tasks' mean changes has the variance between tasks and that of the runs
within them, so the interval is hierarchical without a model. *These tasks* (`within_tasks`): would further runs of
these tasks show it? Only the spread of runs within tasks counts.

Limit: tasks are independent of each other. Ten levels of one game are one task, if the game decides the change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from plat_analysis.statistics.intervals import LEVEL, Estimate
from plat_analysis.statistics.replicates import Replicate, over_replicates

MIN_TASKS = 8  # least tasks for a verdict: with fewer, one task decides it, and sign flips show little
TASKS = "tasks"  # `Estimate.over` of an estimate over tasks


def over_tasks(changes: Mapping[str, float], **facts: Any) -> Estimate:
    """Return the mean change over tasks, with Student's t interval over tasks like these.

    Args:
        changes: Task -> its mean change over runs.
        facts: Go into the Estimate: seeds, wanted, run_ids, note, about.

    Returns:
        An estimate that is tested by Student's t and sign flips of tasks (`significance.shown_above`). Below
        `MIN_TASKS` tasks it has no interval, and its note says so.
    """
    from scipy.special import stdtrit

    values = np.array(list(changes.values()), float)
    if not len(values):
        return Estimate(**facts)
    count = len(values)
    deviation = float(values.std(ddof=1)) if count > 1 else None
    estimate = Estimate(float(values.mean()), over=TASKS, deviation=deviation, **facts)
    if deviation is None or count < MIN_TASKS:
        few = f"{count} of the {MIN_TASKS} tasks that a verdict over tasks needs"
        return replace(estimate, note="; ".join(filter(None, [few, estimate.note])))
    error = deviation / count**0.5
    half = float(stdtrit(count - 1, 0.5 + LEVEL / 2)) * error
    low, high, samples = values.mean() - half, values.mean() + half, (tuple(values.tolist()),)
    return replace(
        estimate, low=float(low), high=float(high), error=error, units=count, freedom=count - 1, samples=samples
    )


def within_tasks(changes: Mapping[str, Mapping[Replicate, float]]) -> Estimate:
    """Return the mean change over tasks, with the interval over further runs of these tasks.

    Tasks are strata: the variance between runs is pooled within them (Student's t). There is no interval below two
    degrees of freedom.

    Args:
        changes: Task -> replicate -> its change.
    """
    strata = {
        Replicate((task, replicate.build), replicate.seed): change
        for task, of_task in changes.items()
        for replicate, change in of_task.items()
    }
    return over_replicates(strata, builds="fixed")


def signed_rank_p(changes: Sequence[float], bound: float = 0.0) -> float:
    """Return the one-sided p-value of "changes are symmetric about `bound`, or below it" (Wilcoxon's signed ranks).

    It is reported beside the tests that decide. It compares ranks, so a few tasks with large changes count little. It
    is 1 if no change differs from the bound.
    """
    from scipy.stats import wilcoxon

    differences = np.asarray(changes, float) - bound
    if not differences.any():
        return 1.0
    return float(wilcoxon(differences, alternative="greater", zero_method="zsplit").pvalue)
