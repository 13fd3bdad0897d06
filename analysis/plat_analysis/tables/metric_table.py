"""Tabulate any metrics: rows x columns of the matrix, a line per metric, the mean of each cell with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from plat_analysis.artifact import Cell, Column, Marks, Note, Row, Table, estimate_cell, interval, record
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.cell import Contrast, Estimates, Term
from plat_analysis.data.labels import model_that_ran
from plat_analysis.data.results import Results
from plat_analysis.facets import Facets, Layout
from plat_analysis.quantities.metric import At, end_decimals, quantity
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds


@takes()
def build(
    results: Results,
    *,
    rows: str | Sequence[str],
    metrics: Sequence[str],
    columns: str | Sequence[str] = "task",
    at: At = "end",
    percent: bool = True,
    digits: int | Mapping[str, int] | None = None,
    builds: Builds = "random",
    title: str = "",
    name: str = "metrics",
) -> list[Table]:
    """One table; a cell is the mean over the runs of its row and column.

    rows, columns  axes (several row axes are joined)
    metrics        names of metrics, in the order of the lines
    at             the last measurement of a run (end), or that of its base model before training (start)
    percent        the metrics are shares, shown in percent
    digits         decimals, of all metrics or by metric (default: 1 of percent, else as the values need)
    builds         intervals about these builds of the base model (fixed), or about such builds (random)
    """
    estimates = Estimates(Facets(results, Layout.of(rows, columns)), builds=builds)
    given = dict.fromkeys(metrics, digits) if isinstance(digits, int) else digits or {}
    decimals = {metric: given.get(metric, 1 if percent else end_decimals(results, metric, at)) for metric in metrics}
    how = {"at": at, "percent": percent}
    contrasts = {
        metric: Contrast(Term("", quantity({"metric": metric, **how, "digits": decimals[metric]})))
        for metric in metrics
    }
    models = {row: model_that_ran(estimates.runs(row)) for row in estimates.rows}
    table = Table(
        name=name,
        title=title or ", ".join(metrics),
        columns=[
            Column("", numeric=False),
            *([Column("model that ran", numeric=False)] if any(models.values()) else []),
            *([Column("", numeric=False)] if len(metrics) > 1 else []),
            *(Column(estimates.facets.column_label(column) or "mean") for column in estimates.columns),
        ],
        rows=[],
    )
    marks = Marks()
    shown: list[Estimate] = []
    for row in estimates.rows:
        for index, (metric, contrast) in enumerate(contrasts.items()):
            line = [Cell(estimates.facets.row_label(row) if index == 0 else "", tone="strong")]
            line += [Cell(models[row] if index == 0 else "", tone="dim")] if any(models.values()) else []
            line += [Cell(metric, tone="dim")] if len(metrics) > 1 else []
            for column in estimates.columns:
                estimate = estimates.estimate(row, column, contrast)
                shown.append(estimate)
                line.append(_cell(estimate, marks, decimals[metric]))
                table.records.append(record(estimate, row=row, column=column, metric=metric, at=at))
                if estimate.value is not None:
                    table.values[f"{name}/{row}/{column}/{metric}"] = estimate.value
            table.rows.append(Row(tuple(line), rule=index == 0))
    table.caption = _caption(shown, at, percent)
    table.notes = marks.notes()
    if any(estimate.value is not None and not estimate.over for estimate in shown):
        table.notes.append(
            Note("A value without an interval has fewer than three builds or seeds, or all its values are equal.")
        )
    table.notes += [Note(text) for text in results.unlogged(metrics)]
    return [table]


def _cell(estimate: Estimate, marks: Marks, digits: int) -> Cell:
    """Return `54.3 [50.1, 58.5]`, or a dash; a mark where runs are missing."""
    mark = marks.of(estimate.note or ("not in the matrix" if not estimate.wanted else ""))
    cell = estimate_cell(estimate, digits, mark=mark)
    text = f"{cell.text} {interval(estimate, digits)}".rstrip()
    return cell if estimate.value is None else replace(cell, text=text, shorter=(text, cell.text))


def _caption(shown: Sequence[Estimate], at: At, percent: bool) -> str:
    when = "of the base models, before training" if at == "start" else "at the end of the runs"
    over = " and ".join(sorted({estimate.units_in_words for estimate in shown if estimate.over}))
    bounds = f", with its 95 % interval (Student's t over {over})" if over else ""
    return f"Mean {when}{', in percent' if percent else ''}{bounds}."
