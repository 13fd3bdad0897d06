"""Collect the scores of every row over many tasks: a number for each run, by task.

Builders of `aggregate`, `profile` and `improvement` share these options. A task that has several builds of the base
model counts once for each of them, so that intervals are about these builds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from plat_analysis.contrasts.cell import Cell, Contrast, Estimates, Term
from plat_analysis.data.results import Results
from plat_analysis.facets import AxisNames, Facets, Layout, rows_or
from plat_analysis.quantities.metric import quantity
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.statistics import aggregate
from plat_analysis.statistics.aggregate import Scores, Values
from plat_analysis.statistics.intervals import TINY, Estimate
from plat_analysis.statistics.replicates import MIN_UNITS, Replicate, these_builds
from plat_analysis.statistics.tasks import MIN_TASKS

Tasks = Literal["fixed", "random"]
Key = tuple[str, Any]  # column, build of the base model


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Hold the options of a summary over many tasks.

    rows       axes whose values are compared (default: `variant` where the matrix has it, else the algorithm)
    columns    the axis, or axes, whose values are the tasks
    measure    the score of a run (see `plat_analysis.quantities.metric`); tasks need one unit, see `normalised` there
    """

    rows: AxisNames = None
    columns: AxisNames = "task"
    measure: Any = "final"

    def beforehand(self, results: Results) -> None:
        """Raise the SpecError of `laid_out`."""
        self.laid_out(results)

    def laid_out(self, results: Results) -> TaskScores:
        """Return the scores by row. Raises SpecError if two runs have one position, or for a wrong measure."""
        rows = rows_or(self.rows, results.experiment, "algorithm")
        facets = Facets(results, Layout.of(rows=rows, columns=self.columns))
        return TaskScores(facets, quantity(self.measure, results=results))


class TaskScores:
    """Hold the scores of every row. `rows` is row -> its scores."""

    def __init__(self, facets: Facets, of: Quantity) -> None:
        self.facets, self.of = facets, of
        estimates = Estimates(facets)
        self.rows = {row: RowScores.of(estimates.row(row), of) for row in facets.rows}

    def label(self, row: str) -> str:
        """Return a row in print; the measure's name for the only row."""
        return self.facets.row_label(row) or self.of.name


@dataclass(frozen=True)
class RowScores:
    """Hold the scores of one row.

    tasks   task (and build) -> the scores of its runs, in the unit shown; an empty array where all are missing
    facts   of its estimates: seeds, wanted, run_ids, note, about
    """

    tasks: Mapping[Key, NDArray[np.float64]]
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, cells: list[Cell], of: Quantity) -> RowScores:
        """Return the scores of a row's cells."""
        found: dict[Key, list[float]] = {}
        every: dict[Replicate, None] = {}
        notes, ids, wanted = [], [], 0
        for cell in cells:
            side = cell.sides[""]
            values = cell.by_replicate(Contrast(Term("", of)))
            for replicate in side.runs:
                of_task = found.setdefault((cell.column, replicate.build), [])
                of_task += [values[replicate]] if replicate in values else []
            every |= dict.fromkeys(side.runs)
            wanted += len(side.runs)
            ids += [side.runs[replicate].id for replicate in values]
            reason = side.reason(of)
            notes += [f"{cell.column}: {reason}" if cell.column and reason else reason]
        about = these_builds(every) if every else ""
        note = "; ".join(dict.fromkeys(filter(None, notes)))
        facts = {"seeds": len(ids), "wanted": wanted, "run_ids": tuple(dict.fromkeys(ids)), "note": note}
        return cls({key: np.array(of_task, float) for key, of_task in found.items()}, facts | {"about": about})

    @property
    def scores(self) -> Scores:
        """Return the scores by task."""
        return list(self.tasks.values())

    @property
    def complete(self) -> bool:
        """Return True if every task has a run with a score."""
        return bool(self.tasks) and all(len(task) for task in self.scores)

    def estimate(
        self, statistic: Callable[[Scores], Values], tasks: Tasks = "fixed", others: RowScores | None = None
    ) -> Estimate:
        """Return a statistic with its bootstrap interval; without a value where a task has no score.

        Args:
            statistic: Of the scores of this row, followed by those of `others`, if given.
            tasks: The interval is about these tasks (`fixed`: runs are resampled within tasks, from three runs of each
                task on), or about tasks like these (`random`: tasks and their runs are resampled, from eight tasks on).
            others: The row that this one is compared with; with it, tasks are fixed.
        """
        rows = [self] if others is None else [self, others]
        facts = {
            "seeds": sum(row.facts["seeds"] for row in rows),
            "wanted": sum(row.facts["wanted"] for row in rows),
            "run_ids": tuple(run for row in rows for run in row.facts["run_ids"]),
            "note": "; ".join(dict.fromkeys(row.facts["note"] for row in rows if row.facts["note"])),
            "about": self.facts["about"],
        }
        if not all(row.complete for row in rows):
            return Estimate(**facts)
        scores = [task for row in rows for task in row.scores]
        value = float(statistic(scores))
        interval = aggregate.these_tasks if tasks == "fixed" else aggregate.tasks_like_these
        if not has_interval(scores, tasks):
            return Estimate(value, **facts)
        low, high = interval(statistic, scores)
        if high - low <= TINY:  # all resampled runs agree, as for a probability of 1
            return Estimate(value, **facts)
        return Estimate(value, float(low), float(high), "seeds" if tasks == "fixed" else "tasks", **facts)


def has_interval(scores: Scores, tasks: Tasks = "fixed") -> bool:
    """Return True if there are enough runs of each task, or enough tasks, and they are not all equal."""
    if tasks == "random":
        return len(scores) >= MIN_TASKS
    spread = max(float(np.ptp(task)) / max(1.0, float(np.abs(task).max())) for task in scores)
    return min(map(len, scores)) >= MIN_UNITS and spread > TINY
