"""Check that a measure itself, not its change, is above or below a bound in every row: Student's t and sign flips.

A row is judged as a change is (`claims.claim_rows`), by its distance from the bound. For example,
`{metric: filter/kept_share, slope: true}` below 0 says that a kept share falls. The verdict is *not reproduced* only
where a row is shown to lie on the other side of the bound.
"""

from __future__ import annotations

from typing import Any, Literal

from plat_analysis.artifact import interval, number, p_value
from plat_analysis.builder_options import takes
from plat_analysis.claims.claim_rows import about
from plat_analysis.claims.decided import RowTests
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import ChosenRows, of_tests
from plat_analysis.contrasts.cell import Estimates
from plat_analysis.contrasts.contrast import Contrast, Term
from plat_analysis.data.results import Results
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.families import shared_spread
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds
from plat_analysis.statistics.sign_flips import shown_above, shown_below

Side = Literal["above", "below"]


@takes(ChosenRows)
def level(
    results: Results,
    asked: ChosenRows,
    *,
    measure: Any,
    side: Side = "above",
    bound: float = 0.0,
    builds: Builds = "fixed",
) -> Verdict:
    """A measure is above (or below) a bound in every row, or in those in `only`.

    measure  the measure of a run (see `plat_analysis.quantities.metric`)
    side     above or below
    bound    in the unit in which the measure is shown: percent for success
    builds   the verdict is about these builds of the base model (fixed), or about such builds (random)
    """
    facets, measured = asked.facets(results), quantity(measure, results=results)
    cells = Estimates(facets, builds=builds).cells
    estimates = {row or measured.name: cells[row, ""].estimate(Contrast(Term("", measured))) for row in facets.rows}
    guarded = shared_spread({row: estimate for row, estimate in estimates.items() if estimate.judged})
    tested = {
        row: _tested(row, estimate, guarded.get(row), side, bound, measured.digits)
        for row, estimate in estimates.items()
    }
    ids = (run for estimate in estimates.values() for run in estimate.run_ids)
    return of_tests(tested, asked.looks, ids, about(estimates.values()))


def _tested(row: str, estimate: Estimate, guarded: Estimate | None, side: Side, bound: float, digits: int) -> RowTests:
    """Test one row on the given side of the bound, and on the other."""
    if guarded is None:
        reason = estimate.note or f"{estimate.seeds}/{estimate.wanted} seeds"
        return RowTests(None, None, f"{row} ({reason})", estimate)
    above, below = shown_above(guarded, bound), shown_below(guarded, bound)
    p, opposite = (above, below) if side == "above" else (below, above)
    shown = f"{row} {number(estimate.value, digits)} {interval(estimate, digits)}".strip()
    return RowTests(p, opposite, f"{shown} against {bound:g}, p {p_value(p)}", estimate)
