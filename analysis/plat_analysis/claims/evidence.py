"""What the checks of a change share: their options, the rows that they judge, and the verdict with its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.rows import Decision, RowEvidence
from plat_analysis.contrasts.cell import Cell
from plat_analysis.contrasts.comparison import Compared, Comparison
from plat_analysis.contrasts.contrast import Contrast, change
from plat_analysis.contrasts.controlled import check_sides
from plat_analysis.data.labels import label
from plat_analysis.data.runs import spell
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.intervals import Estimate

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames


@dataclass(frozen=True)
class ChangeOptions(Comparison):
    """A comparison whose change is judged.

    measure    what changes: success at the `peak`, of the peak checkpoint on held-out instances (`heldout`), of the
               last one (`final`), or any measure (see `plat_analysis.quantities.metric`)
    smallest   the smallest effect of interest in points, or in the unit of the measure
    differ_in  the options in which the two sides of a pair may differ; anything else that differs is refused
    looks      how often the claim is going to be judged while runs are added; the error is divided among these looks
    by_column  judge every column of a row for itself, not their mean; all of them share the error of the claim (Holm)
    """

    measure: str | Mapping[str, Any] = "peak"
    smallest: float = 5.0
    differ_in: Sequence[str] = ()
    looks: int = 1
    by_column: bool = False

    @property
    def contrast(self) -> Contrast:
        """The change that is judged."""
        return change(quantity(self.measure), spell(self.baseline), spell(self.treatment))

    @property
    def shown(self) -> dict[str, Any]:
        """How a row's evidence shows the change: digits behind the point, and the unit behind a size."""
        measured = self.contrast.of.quantity
        return {"digits": measured.digits, "unit": " points" if measured.factor != 1 else ""}

    def grid(self, frames: Frames | None, experiment: Experiment) -> Compared:
        """The runs of the comparison; SpecError also where its sides differ in more than `differ_in` names."""
        grid = super().grid(frames, experiment)
        check_sides(grid, self.differ_in)
        return grid

    def parts(self, grid: Compared, row: str) -> dict[str, list[Cell]]:
        """Name -> the cells whose mean is judged: all of a row, or each of them for itself (`Sokoban, grpo`)."""
        cells = grid.row(row)
        return {f"{label(cell.column)}, {row}": [cell] for cell in cells} if self.by_column else {row: cells}


def chosen_rows(rows: Sequence[str], only: Sequence[str]) -> list[str]:
    """Those of the rows that are in `only`, or all of them; SpecError where one does not exist."""
    unknown = [row for row in only if row not in rows]
    if unknown:
        raise SpecError(f"only: there is no row {unknown[0]!r}", mend=mend(unknown[0], rows, "rows"))
    return [row for row in rows if not only or row in only]


def verdict(decision: Decision, evidence: Mapping[str, RowEvidence]) -> Verdict:
    """A decision with the numbers and the runs behind it."""
    ids = tuple(dict.fromkeys(run for item in evidence.values() for run in item.estimate.run_ids))
    return judged(decision, {row: item.estimate for row, item in evidence.items()}, ids)


def judged(decision: Decision, estimates: Mapping[str, Estimate], run_ids: tuple[str, ...]) -> Verdict:
    """A decision with the number of each row, and its interval where it is one over seeds or builds."""
    return Verdict(
        decision.status,
        {row: estimate.value for row, estimate in estimates.items() if estimate.value is not None},
        decision.detail,
        run_ids,
        lines=decision.lines,
        p=decision.p,
        deciding=decision.deciding,
        bounds={
            row: (estimate.low, estimate.high)
            for row, estimate in estimates.items()
            if estimate.low is not None and estimate.high is not None and estimate.over != "instances"
        },
    )
