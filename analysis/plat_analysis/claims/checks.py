"""The built-in claim checks (entry-point group `plat.claims`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.rows import RowEvidence, decide
from plat_analysis.results.grid import paired_grid
from plat_analysis.results.measured import At, Measured, cells
from plat_analysis.results.published import printed_table
from plat_analysis.results.runs import Results

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames


def mean_delta_positive(
    frames: Frames,
    experiment: Experiment,
    *,
    rows: str | Sequence[str] | None = None,
    columns: str = "task",
    pair: str = "filter",
    baseline: Any = "none",
    treatment: Any = "top_p",
    heldout: bool = False,
    only: Sequence[str] = (),
    paper: str | None = None,
    smallest: float = 5.0,
) -> Verdict:
    """The treatment helps on average over the columns, for every row (or those in `only`).

    How rows are judged together is said in `plat_analysis.claims.rows`.

    heldout   judge the peak checkpoints on the held-out instances, instead of the peaks themselves
    paper     key of the printed table that has the published sizes (default: the one that `source` names, if any)
    smallest  the smallest effect of interest in points, where no size above zero is published
    """
    grid = paired_grid(frames, experiment, rows, columns, pair, baseline, treatment)
    printed = printed_table(experiment, paper)
    quantity = "heldout_delta" if heldout else "delta"
    unknown = [row for row in only if row not in grid.rows]
    if unknown:
        raise SpecError(f"only: there is no row {unknown[0]!r}", mend=mend(unknown[0], grid.rows, "rows"))
    evidence = {
        row: RowEvidence(
            grid.average(row, quantity), printed.change(row, [cell.column for cell in grid.row(row)]), smallest
        )
        for row in grid.rows
        if not only or row in only
    }
    return _verdict(evidence)


def increasing(
    frames: Frames,
    experiment: Experiment,
    *,
    rows: str | Sequence[str],
    metric: str,
    columns: str = "task",
    at: At = "end",
    percent: bool = True,
    smallest: float = 5.0,
) -> Verdict:
    """A metric grows from each row to the next, in the order of the matrix, in every column.

    Each step from a row to the next in a column is judged as a row of `plat_analysis.claims.rows`, paired by build and
    seed.

    at        judge the last measurement of the runs (end), or that of their base models before training (start)
    percent   the metric is a share, and sizes are in points
    smallest  the smallest effect of interest
    """
    results = Results(frames, experiment)
    groups, row_names, column_names = cells(results, rows, columns)
    if len(row_names) < 2:
        raise SpecError(f"rows: there is one value only, {row_names[0]}", mend="give the axis of the rows two values")
    measured = Measured(metric, at, 100.0 if percent else 1.0)
    evidence = {
        f"{column}, {row} to {following}": RowEvidence(
            measured.difference(results, groups.get((row, column), {}), groups.get((following, column), {})),
            smallest=smallest,
        )
        for column in column_names
        for row, following in pairwise(row_names)
    }
    return _verdict(evidence)


def _verdict(evidence: Mapping[str, RowEvidence]) -> Verdict:
    decision = decide(evidence)
    ids = dict.fromkeys(run for item in evidence.values() for run in item.estimate.run_ids)
    values = {row: item.estimate.value for row, item in evidence.items() if item.estimate.value is not None}
    return Verdict(decision.status, values, decision.detail, tuple(ids), lines=decision.lines)


MEAN_DELTA_POSITIVE = mean_delta_positive
INCREASING = increasing
