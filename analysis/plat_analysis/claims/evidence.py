"""What every built-in check shares: the grid that a claim is about, its rows, and the measure that it judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.rows import Decision, RowEvidence
from plat_analysis.results.controlled import check_sides
from plat_analysis.results.grid import Grid, paired_grid

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames

Measure = Literal["peak", "heldout", "final"]


def controlled_grid(
    frames: Frames,
    experiment: Experiment,
    rows: str | Sequence[str] | None,
    columns: str,
    pair: str,
    baseline: Any,
    treatment: Any,
    differ_in: Sequence[str],
) -> Grid:
    """The grid of a claim; SpecError where its sides differ in more than `differ_in` names."""
    grid = paired_grid(frames, experiment, rows, columns, pair, baseline, treatment)
    check_sides(grid, differ_in)
    return grid


def chosen_rows(grid: Grid, only: Sequence[str]) -> list[str]:
    """The rows in `only`, or all of them; SpecError where one does not exist."""
    unknown = [row for row in only if row not in grid.rows]
    if unknown:
        raise SpecError(f"only: there is no row {unknown[0]!r}", mend=mend(unknown[0], grid.rows, "rows"))
    return [row for row in grid.rows if not only or row in only]


def quantity(measure: Measure) -> str:
    """The change that a claim judges, as `plat_analysis.results.pairs` calls it."""
    return "delta" if measure == "peak" else f"{measure}_delta"


def verdict(decision: Decision, evidence: Mapping[str, RowEvidence]) -> Verdict:
    """A decision with the numbers and the runs behind it."""
    ids = dict.fromkeys(run for item in evidence.values() for run in item.estimate.run_ids)
    values = {row: item.estimate.value for row, item in evidence.items() if item.estimate.value is not None}
    return Verdict(decision.status, values, decision.detail, tuple(ids), lines=decision.lines)
