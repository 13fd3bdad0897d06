"""The built-in claim checks (entry-point group `plat.claims`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import ChangeOptions, chosen_rows, verdict
from plat_analysis.claims.rows import RowEvidence, decide
from plat_analysis.contrasts.cell import average
from plat_analysis.contrasts.contrast import change as change_of
from plat_analysis.contrasts.estimates import Estimates
from plat_analysis.data.published import printed_table
from plat_analysis.data.runs import Results
from plat_analysis.facets import Facets, Layout
from plat_analysis.options import takes
from plat_analysis.quantities.metric import At, metric_quantity
from plat_analysis.statistics.replicates import Builds

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames


@takes(ChangeOptions)
def mean_delta_positive(
    frames: Frames,
    experiment: Experiment,
    change: ChangeOptions,
    *,
    only: Sequence[str] = (),
    paper: str | None = None,
) -> Verdict:
    """The treatment helps on average over the columns, or in each of them, for every row (or those in `only`).

    How rows are judged together is said in `plat_analysis.claims.rows`.

    only       the rows that are judged (default: all)
    paper      key of the printed table that has the published sizes (default: the one that `source` names, if any);
               `smallest` stands in for a size where none above zero is published. Sizes are published of the peak;
               a claim on another measure has none
    """
    grid = change.grid(frames, experiment)
    printed = printed_table(experiment, paper)
    evidence = {
        name: RowEvidence(
            average(cells, change.contrast),
            printed.change(row, [cell.column for cell in cells]) if change.measure == "peak" else None,
            change.smallest,
            **change.shown,
        )
        for row in chosen_rows(grid.rows, only)
        for name, cells in change.parts(grid, row).items()
    }
    return verdict(decide(evidence, change.looks), evidence)


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
    builds: Builds = "random",
) -> Verdict:
    """A metric grows from each row to the next, in the order of the matrix, in every column.

    Each step from a row to the next in a column is judged as a row of `plat_analysis.claims.rows`, paired by build and
    seed.

    at        judge the last measurement of the runs (end), or that of their base models before training (start)
    percent   the metric is a share, and sizes are in points
    smallest  the smallest effect of interest
    builds    the verdict is about these builds of the base model (fixed), or about such builds (random)
    """
    facets = Facets(Results.of(frames, experiment), Layout.of(columns=columns, conditions=rows))
    if len(facets.conditions) < 2:
        return Verdict("not_enough_data", detail=f"there is one row only, {facets.conditions[0]}")
    for row, following in pairwise(facets.conditions):
        facets.check_different(row, following)
    quantity = metric_quantity(metric, at, 100.0 if percent else 1.0)
    estimates = Estimates(facets, builds=builds)
    evidence = {
        f"{column}, {row} to {following}": RowEvidence(
            estimates.estimate("", column, change_of(quantity, row, following)), smallest=smallest
        )
        for column in facets.columns
        for row, following in pairwise(facets.conditions)
    }
    return verdict(decide(evidence), evidence)


MEAN_DELTA_POSITIVE = mean_delta_positive
INCREASING = increasing
