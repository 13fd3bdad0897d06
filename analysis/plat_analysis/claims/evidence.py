"""What the checks of a change share: their options, the rows that they judge, and the verdict with its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.rows import Decision, RowEvidence
from plat_analysis.results.comparison import Comparison
from plat_analysis.results.controlled import check_sides
from plat_analysis.results.grid import Grid
from plat_analysis.results.labels import label
from plat_analysis.results.pairs import PairedCell

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames

Measure = Literal["peak", "heldout", "final"]


@dataclass(frozen=True)
class ChangeOptions(Comparison):
    """A comparison whose change is judged.

    measure    what changes: success at the peak, of the peak checkpoint on held-out instances, or of the last one
    smallest   the smallest effect of interest in points
    differ_in  the options in which the two sides of a pair may differ; anything else that differs is refused
    looks      how often the claim is going to be judged while runs are added; the error is divided among these looks
    by_column  judge every column of a row for itself, not their mean; all of them share the error of the claim (Holm)
    """

    measure: Measure = "peak"
    smallest: float = 5.0
    differ_in: Sequence[str] = ()
    looks: int = 1
    by_column: bool = False

    @property
    def quantity(self) -> str:
        """The change that is judged, as `plat_analysis.results.pairs` calls it."""
        return "delta" if self.measure == "peak" else f"{self.measure}_delta"

    def grid(self, frames: Frames | None, experiment: Experiment) -> Grid:
        """The runs of the comparison; SpecError also where its sides differ in more than `differ_in` names."""
        grid = super().grid(frames, experiment)
        check_sides(grid, self.differ_in)
        return grid

    def parts(self, grid: Grid, row: str) -> dict[str, list[PairedCell]]:
        """Name -> the cells whose mean is judged: all of a row, or each of them for itself (`Sokoban, grpo`)."""
        cells = grid.row(row)
        return {f"{label(cell.column)}, {row}": [cell] for cell in cells} if self.by_column else {row: cells}


def chosen_rows(grid: Grid, only: Sequence[str]) -> list[str]:
    """The rows in `only`, or all of them; SpecError where one does not exist."""
    unknown = [row for row in only if row not in grid.rows]
    if unknown:
        raise SpecError(f"only: there is no row {unknown[0]!r}", mend=mend(unknown[0], grid.rows, "rows"))
    return [row for row in grid.rows if not only or row in only]


def verdict(decision: Decision, evidence: Mapping[str, RowEvidence]) -> Verdict:
    """A decision with the numbers and the runs behind it."""
    ids = dict.fromkeys(run for item in evidence.values() for run in item.estimate.run_ids)
    values = {row: item.estimate.value for row, item in evidence.items() if item.estimate.value is not None}
    return Verdict(decision.status, values, decision.detail, tuple(ids), lines=decision.lines, p=decision.p)
