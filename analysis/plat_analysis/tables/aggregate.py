"""Tabulate summaries of each row over many tasks: interquartile mean, mean, median and optimality gap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from plat_analysis.artifact import Cell, Column, Marks, Note, Row, Table, estimate_cell, interval, record
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.task_scores import TaskOptions, Tasks
from plat_analysis.data.results import Results
from plat_analysis.statistics import aggregate
from plat_analysis.statistics.aggregate import Scores, Values
from plat_analysis.statistics.intervals import Estimate

FEW = 10  # with fewer runs of a task, the note says that intervals are too narrow


@takes(TaskOptions)
def build(
    results: Results,
    asked: TaskOptions,
    *,
    tasks: Tasks = "fixed",
    target: float | None = None,
    title: str = "",
    name: str = "aggregate",
) -> list[Table]:
    """One table, with a line for each row and its summaries over tasks, with their 95 % bootstrap intervals.

    tasks      intervals are about further runs of these tasks (fixed), or about tasks like these (random)
    target     the score from which on nothing is missing, for the optimality gap (default: 1, or 100 percent)
    """
    scores = asked.laid_out(results)
    of = scores.of
    bound = of.factor if target is None else target
    table = Table(
        name=name,
        title=title or results.heading,
        columns=[Column("", numeric=False), Column("tasks"), Column("runs"), *map(Column, SHOWN)],
        rows=[],
        caption=_caption(tasks, f"{bound:g}", of.factor != 1),
    )
    marks, shown = Marks(), []
    for row, found in scores.rows.items():
        line = [Cell(scores.label(row), tone="strong")]
        line += [Cell(str(len(found.tasks)), tone="dim"), Cell(str(found.facts["seeds"]), tone="dim")]
        for statistic, compute in _statistics(bound).items():
            estimate = found.estimate(compute, tasks)
            shown.append(estimate)
            line.append(_cell(estimate, of.digits, marks))
            table.records.append(record(estimate, row=row, statistic=statistic, measure=of.name))
            if estimate.value is not None:
                table.values["/".join(filter(None, [name, row, statistic]))] = estimate.value
        table.rows.append(Row(tuple(line)))
    fewest = min((len(task) for found in scores.rows.values() for task in found.scores), default=0)
    table.notes = [*marks.notes(), *_notes(shown, tasks, fewest)]
    return [table]


SHOWN = ("IQM", "mean", "median", "optimality gap")


def _statistics(target: float) -> dict[str, Callable[[Scores], Values]]:
    """Return the statistics by the names in `SHOWN`."""
    gap = partial(aggregate.optimality_gap, target=target)
    return dict(zip(SHOWN, (aggregate.iqm, aggregate.mean, aggregate.median, gap), strict=True))


def _cell(estimate: Estimate, digits: int, marks: Marks) -> Cell:
    cell = estimate_cell(estimate, digits, mark=marks.of(estimate.note))
    text = f"{cell.text} {interval(estimate, digits)}".rstrip()
    return cell if estimate.value is None else replace(cell, text=text, shorter=(text, cell.text))


def _caption(tasks: Tasks, target: str, percent: bool) -> str:
    about = (
        "runs are resampled within each task: about further runs of these tasks"
        if tasks == "fixed"
        else "tasks are resampled, and runs within them: about tasks like these"
    )
    return (
        f"Over all tasks{', in percent' if percent else ''}. IQM: the mean of the middle half of all runs. Median: of "
        f"the tasks' means. Optimality gap: how far runs stay below {target} on average (lower is better). 95 % "
        f"intervals by the bootstrap: {about}."
    )


def _notes(shown: list[Estimate], tasks: Tasks, fewest: int) -> list[Note]:
    notes = []
    if any(estimate.value is not None and estimate.low is None for estimate in shown):
        needed = "three runs of each task that are not all equal" if tasks == "fixed" else "eight tasks"
        notes.append(Note(f"An interval needs {needed}."))
    if tasks == "fixed" and 0 < fewest < FEW and any(estimate.low is not None for estimate in shown):
        narrow = "a little too narrow: with three runs, they contain the true value in 87 % of cases"
        notes.append(Note(f"With {fewest} runs of a task, these intervals are {narrow}."))
    return notes
