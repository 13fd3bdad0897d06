"""Check that the treatment helps more in one row than in another: the difference of two changes, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis.builder_options import takes
from plat_analysis.claims.claim_rows import RowEvidence, decide
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import ChangeOptions, with_evidence
from plat_analysis.contrasts.cell import Cell, average, common_means
from plat_analysis.contrasts.contrast import Contrast
from plat_analysis.data.results import Results
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import over_replicates


@takes(ChangeOptions)
def delta_larger(results: Results, change: ChangeOptions, *, row: str, than: str) -> Verdict:
    """The treatment helps more in one row than in another, on average over the columns or in each of them.

    row, than  the two rows: the change in `row` is claimed to be larger than that in `than`

    Raises SpecError if one is no row, or if they have different columns.
    """
    grid = change.grid(results)
    for name in (row, than):
        if name not in grid.rows:
            raise SpecError(f"there is no row {name!r}", fix=suggest(name, grid.rows, "rows"))
    if [cell.column for cell in grid.row(row)] != [cell.column for cell in grid.row(than)]:
        raise SpecError("the two rows have different columns", fix="compare rows with runs in the same columns")
    sides = change.parts(grid, row), change.parts(grid, than)
    evidence = {
        f"{name} over {than}": RowEvidence(
            difference(first, second, change.contrast), smallest=change.smallest, **change.shown(results)
        )
        for (name, first), second in zip(sides[0].items(), sides[1].values(), strict=True)
    }
    return with_evidence(decide(evidence, change.looks), evidence)


def difference(first: Sequence[Cell], second: Sequence[Cell], contrast: Contrast) -> Estimate:
    """Return the mean contrast of `first` minus `second` (same columns), paired; without a value if one has none."""
    parts = [average(cells, contrast) for cells in (first, second)]
    notes = dict.fromkeys(part.note for part in parts if part.note)
    facts: dict[str, Any] = {
        "wanted": max(part.wanted for part in parts),
        "run_ids": tuple(dict.fromkeys(run for part in parts for run in part.run_ids)),
        "note": "; ".join(notes),
    }
    if any(part.value is None for part in parts):
        return Estimate(**facts)
    columns = [
        {key: mine[key] - theirs[key] for key in mine if key in theirs}
        for mine, theirs in (
            (cell.by_replicate(contrast), other.by_replicate(contrast))
            for cell, other in zip(first, second, strict=True)
        )
    ]
    values = common_means(columns)
    rounding = float(np.sqrt(sum(cell.rounding(contrast) ** 2 for cell in [*first, *second]))) / len(columns)
    return over_replicates(values, rounding, contrast.seedless, first[0].builds, **facts)
