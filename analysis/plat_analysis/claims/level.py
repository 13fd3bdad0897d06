"""Whether a measure itself, not a change of it, is above or below a bound in every row: Student's t and sign flips.

A row is judged as a change is (`plat_analysis.claims.rows`), with the distance from the bound in the change's place. So
`{metric: filter/kept_share, slope: true}` below 0 says that a kept share falls, and a share of runs above .5 says that
most do. The verdict is *not reproduced* only where a row is shown to lie on the other side of the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from plat_analysis.artifact import interval, number, p_value
from plat_analysis.claims.decided import RowTests, decide
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import chosen_rows, judged
from plat_analysis.claims.rows import about
from plat_analysis.contrasts.contrast import Contrast, Term
from plat_analysis.contrasts.estimates import Estimates
from plat_analysis.data.runs import Results
from plat_analysis.facets import AxisNames, Facets, Layout
from plat_analysis.options import checked_by
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.families import shared_spread
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds
from plat_analysis.statistics.sign_flips import shown_above, shown_below

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames

Side = Literal["above", "below"]


def _beforehand(results: Results, *, rows: AxisNames = None, only: Sequence[str] = (), **_: Any) -> None:
    """SpecError where a row is named that does not exist, or two runs stand at one place."""
    chosen_rows(Facets(results, Layout.of(rows=rows)).rows, only)


@checked_by(_beforehand)
def level(
    frames: Frames,
    experiment: Experiment,
    *,
    measure: Any,
    rows: AxisNames = None,
    side: Side = "above",
    bound: float = 0.0,
    only: Sequence[str] = (),
    builds: Builds = "fixed",
    looks: int = 1,
) -> Verdict:
    """A measure is above (or below) a bound in every row, or in those in `only`.

    measure  what is measured of a run (see `plat_analysis.quantities.metric`)
    rows     axes that make the rows (default: one row)
    side     above or below
    bound    in the unit in which the measure is shown: percent for success
    only     the rows that are judged (default: all)
    builds   the verdict is about these builds of the base model (fixed), or about such builds (random)
    looks    how often the claim is going to be judged while runs are added; the error is divided among these looks
    """
    facets = Facets(Results.of(frames, experiment), Layout.of(rows=rows))
    measured, names = quantity(measure), chosen_rows(facets.rows, only)
    cells = Estimates(facets, builds=builds).cells
    estimates = {row or measured.name: cells[row, ""].estimate(Contrast(Term("", measured))) for row in names}
    guarded = shared_spread({row: estimate for row, estimate in estimates.items() if estimate.judged})
    tested = {
        row: _tested(row, estimate, guarded.get(row), side, bound, measured.digits)
        for row, estimate in estimates.items()
    }
    decision = decide(tested, looks)
    lines = (*decision.lines, *filter(None, [about(estimates.values())]))
    ids = tuple(dict.fromkeys(run for estimate in estimates.values() for run in estimate.run_ids))
    return judged(replace(decision, lines=lines), estimates, ids)


LEVEL = level


def _tested(row: str, estimate: Estimate, guarded: Estimate | None, side: Side, bound: float, digits: int) -> RowTests:
    """One row on the given side of the bound, and on the other."""
    if guarded is None:
        reason = estimate.note or f"{estimate.seeds}/{estimate.wanted} seeds"
        return RowTests(None, None, f"{row} ({reason})", estimate)
    above, below = shown_above(guarded, bound), shown_below(guarded, bound)
    p, opposite = (above, below) if side == "above" else (below, above)
    shown = f"{row} {number(estimate.value, digits)} {interval(estimate, digits)}".strip()
    return RowTests(p, opposite, f"{shown} against {bound:g}, p {p_value(p)}", estimate)
