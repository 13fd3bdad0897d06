"""The order in which a sweep executes the runs of a file: each cell gets its first seed before any gets its second."""

from __future__ import annotations

from collections import Counter

from plat.spec.expansion.experiment import Experiment, Run
from plat.spec.identity.run_identity import canonical

OF_REPLICATES = ("seed", "model.base.seed")  # axes whose values are replicates of a cell


def in_order(experiment: Experiment) -> list[Run]:
    """Return the runs of a file as a sweep executes them. With `order: file`, and for a search, it is the file's."""
    if experiment.order == "file" or experiment.is_search:
        return experiment.runs
    before: Counter[str] = Counter()  # cell -> its replicates so far
    rounds: dict[str, int] = {}
    for run in experiment.runs:
        cell = canonical({name: value for name, value in run.axes.items() if name not in OF_REPLICATES})
        rounds[run.id] = before[cell]
        before[cell] += 1
    return sorted(experiment.runs, key=lambda run: rounds[run.id])
