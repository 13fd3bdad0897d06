"""The built-in claim checks (entry-point group `plat.claims`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from plat_analysis.builder_options import takes
from plat_analysis.claims.claim_rows import RowEvidence, decide
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import ChangeOptions, chosen_rows, with_evidence
from plat_analysis.contrasts.cell import Estimates, average
from plat_analysis.contrasts.contrast import change as change_of
from plat_analysis.data.published import printed_table
from plat_analysis.data.results import Results
from plat_analysis.facets import Facets, Layout
from plat_analysis.quantities.metric import At, quantity
from plat_analysis.statistics.replicates import Builds


@takes(ChangeOptions)
def mean_delta_positive(
    results: Results, change: ChangeOptions, *, only: Sequence[str] = (), paper: str | None = None
) -> Verdict:
    """The treatment helps in every row, or in those in `only`.

    A row is judged by its mean over the columns; with `by_column`, each of its columns is judged alone.
    `plat_analysis.claims.claim_rows` says how rows are judged together.

    only       the rows that are judged (default: all)
    paper      key of the printed table with the published sizes of the peak (default: the one that `source` names, if
               any). A row whose published size is missing or not above zero takes `smallest`. Only `peak` has
               published sizes; with another `measure` all rows take `smallest`
    """
    grid = change.grid(results)
    printed = printed_table(results.experiment, paper)
    evidence = {
        name: RowEvidence(
            average(cells, change.contrast),
            printed.change(row, [cell.column for cell in cells]) if change.measure == "peak" else None,
            change.smallest,
            **change.shown(results),
        )
        for row in chosen_rows(grid.rows, only)
        for name, cells in change.parts(grid, row).items()
    }
    return with_evidence(decide(evidence, change.looks), evidence)


@takes()
def increasing(
    results: Results,
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

    The change from one row to the next in one column is a step. It is measured between runs of equal build and seed.
    All steps are judged together as `plat_analysis.claims.claim_rows` judges rows.

    at        judge the last measurement of the runs (end), or that of their base models before training (start)
    percent   the metric is a share, and sizes are in points
    smallest  the smallest effect of interest
    builds    the verdict is about these builds of the base model (fixed), or about such builds (random)
    """
    facets = Facets(results, Layout.of(columns=columns, conditions=rows))
    if len(facets.conditions) < 2:
        return Verdict("not_enough_data", detail=f"there is one row only, {facets.conditions[0]}")
    for row, following in pairwise(facets.conditions):
        facets.check_different(row, following)
    measured = quantity({"metric": metric, "at": at, "percent": percent}, results=results)
    unit = " points" if percent else ""
    estimates = Estimates(facets, builds=builds)
    evidence = {
        f"{column}, {row} to {following}": RowEvidence(
            estimates.estimate("", column, change_of(measured, row, following)), None, smallest, measured.digits, unit
        )
        for column in facets.columns
        for row, following in pairwise(facets.conditions)
    }
    return with_evidence(decide(evidence), evidence)
