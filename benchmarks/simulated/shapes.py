"""Error rates of claims and intervals of other shapes: few seeds on many tasks, and runs without pairs.

`tasks`: three seeds on each of many tasks, with tasks as units (`units: tasks`). The change of a task is zero on
average over tasks. `normal`: equal spread. `lottery`: half of all runs collapse by ten spreads. `heavy`: Student's t
with 1.5 degrees of freedom. `signs`: each task has a change of two spreads, up or down. `scales`: the spreads of tasks
differ by a factor of a thousand. `skewed`: the treatment usually gains 1 and loses 9 on one task of ten, which few
tasks do not show. `planted`: half a spread of a run, and a spread between tasks that is as large.

`runs`: unpaired runs (`units: runs`) with these numbers and spreads of the two sides. `heavy`, `lottery` and `skewed`
are the distribution of both sides; `planted` is two spreads.

Intervals: how often the 95 % bootstrap interval of the interquartile mean contains the true one. About these tasks, n
seeds show (n - 1)/n of their variance, so that .89, .92 and .94 are expected with three, five and ten.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plat_analysis.claims.decided import RowEvidence, decide_rows
from plat_analysis.statistics import aggregate
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.tasks import over_tasks
from plat_analysis.statistics.unpaired import over_runs

SEEDS, SIZE = 3, 2.0
HELD = ("shown", "shown_in_part")
KINDS = ("normal", "lottery", "heavy", "signs", "scales", "skewed", "planted")
UNPAIRED = (  # kind, runs and spread of the baseline, runs and spread of the treatment
    ("normal", 5, 1.0, 5, 1.0),
    ("normal", 5, 1.0, 10, 1.0),
    ("normal", 5, 3.0, 10, 1.0),
    ("normal", 10, 3.0, 5, 1.0),
    ("heavy", 5, 1.0, 10, 1.0),
    ("lottery", 5, 1.0, 10, 1.0),
    ("skewed", 5, 1.0, 10, 1.0),
    ("planted", 5, 1.0, 5, 1.0),
    ("planted", 5, 1.0, 10, 1.0),
    ("planted", 5, 3.0, 10, 1.0),
)
Values = NDArray[np.float64]


def noise(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Values:
    """Return runs around zero."""
    if kind == "heavy":
        return random.standard_t(1.5, shape)
    if kind == "lottery":
        return random.standard_normal(shape) - 10 * (random.random(shape) < 0.5)
    return random.standard_normal(shape)


def task_changes(random: np.random.Generator, kind: str, tasks: int) -> Values:
    """Return the change of each task: the difference of two means over its seeds."""
    sides = noise(random, kind, (2, tasks, SEEDS)).mean(axis=-1)
    changes = sides[1] - sides[0]
    if kind == "signs":
        return changes + random.choice([-2.0, 2.0], tasks)
    if kind == "scales":
        return changes * 10 ** random.uniform(0, 3, tasks)
    if kind == "skewed":
        return changes + np.where(random.random(tasks) < 0.1, -9.0, 1.0)
    if kind == "planted":
        return changes + 0.5 + random.standard_normal(tasks)
    return changes


def over(changes: Values) -> Estimate:
    """Return the estimate of one row, as `units: tasks` makes it."""
    named = {str(task): float(change) for task, change in enumerate(changes)}
    return over_tasks(named, seeds=2 * SEEDS * len(named), wanted=2 * SEEDS * len(named))


def unpaired(random: np.random.Generator, case: tuple[str, int, float, int, float]) -> Estimate:
    """Return the estimate of two sides without pairs, as `units: runs` makes it."""
    kind, *sides = case
    drawn = [noise(random, kind, (count,)) * spread for count, spread in zip(sides[::2], sides[1::2], strict=True)]
    if kind == "skewed":
        drawn = [side + np.where(random.random(len(side)) < 0.25, -9.0, 3.0) for side in drawn]
    drawn[1] = drawn[1] + (SIZE if kind == "planted" else 0.0)
    return over_runs(drawn[0].tolist(), drawn[1].tolist(), wanted=sum(map(len, drawn)))


def shares(estimates: list[Estimate]) -> tuple[float, float]:
    """Return the shares of estimates by which a claim of one row is held, and by which it is refuted as below zero."""
    verdicts = [decide_rows({"": RowEvidence(estimate, smallest=0.0)}).status for estimate in estimates]
    return float(np.mean([v in HELD for v in verdicts])), float(
        np.mean([v in ("contradicted", "not_of_this_size") for v in verdicts])
    )


def of_tasks(kind: str, tasks: int, draws: int) -> tuple[float, float]:
    random = np.random.default_rng([16, KINDS.index(kind), tasks])
    return shares([over(task_changes(random, kind, tasks)) for _ in range(draws)])


def of_runs(case: tuple[str, int, float, int, float], draws: int) -> tuple[float, float]:
    random = np.random.default_rng([17, UNPAIRED.index(case)])
    return shares([unpaired(random, case) for _ in range(draws)])


def covered(seeds: int, random_tasks: bool, draws: int, tasks: int = 26) -> float:
    """Return how often the interval of the interquartile mean contains its true value, for normal runs.

    Tasks differ in their level. With `random_tasks` these are drawn anew each time, and the true value is zero.
    """
    random = np.random.default_rng([18, seeds, random_tasks])
    levels = random.standard_normal(tasks)
    true = float(aggregate.iqm(list(levels[:, None] + random.standard_normal((tasks, 20_000)))))
    interval = aggregate.tasks_like_these if random_tasks else aggregate.these_tasks
    hits = 0
    for _ in range(draws):
        levels = random.standard_normal(tasks) if random_tasks else levels
        low, high = interval(aggregate.iqm, list(levels[:, None] + random.standard_normal((tasks, seeds))), 500)
        hits += low <= (0.0 if random_tasks else true) <= high
    return hits / draws


def lines(draws: int) -> Iterator[str]:
    yield f"tasks as units, {SEEDS} seeds of each and side; promised .025 each way (not `skewed`; `planted`: power)"
    yield "kind       tasks   shown in all or some rows   against"
    for kind in KINDS:
        for tasks in (8, 26, 104):
            held, refuted = of_tasks(kind, tasks, draws)
            yield f"{kind:10} {tasks:5}   {held:21.3f}   {refuted:14.3f}"
    yield ""
    yield f"runs without pairs, baseline and treatment; promised .025 each way; `planted`: {SIZE:g} spreads"
    yield "kind       runs, spread   runs, spread   shown in all or some rows   against"
    for case in UNPAIRED:
        kind, n, s, m, r = case
        held, refuted = of_runs(case, draws)
        yield f"{kind:10} {n:4} {s:7g}   {m:4} {r:7g}   {held:21.3f}   {refuted:14.3f}"
    yield ""
    yield "95 % intervals of the interquartile mean over 26 tasks contain the true one; not promised for these tasks"
    for seeds in (3, 5, 10):
        these, such = (covered(seeds, random_tasks, max(20, draws // 2)) for random_tasks in (False, True))
        yield f"{seeds:3} seeds: these tasks {these:.3f}, tasks like these {such:.3f}"
