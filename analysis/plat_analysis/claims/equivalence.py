"""Check that the treatment changes less than an effect of interest, by two one-sided tests (TOST).

A row is *small* when each side shows, one-sided at 2.5 %, that its change lies within ±`smallest`; it is *large* when
Holm's procedure over the rows shows that it lies outside. The tests are those of `claims.claim_rows`, and the rows are
judged together as in `claims.decided`: a small row is shown, a large one is the opposite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plat_analysis.builder_options import takes
from plat_analysis.claims.claim_rows import RowEvidence, about, judged, row_line
from plat_analysis.claims.decided import LEVEL, OPEN, SHORT, outcome, remarked, row_kinds
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import ChangeOptions, chosen_rows, with_evidence
from plat_analysis.contrasts.cell import average
from plat_analysis.data.results import Results
from plat_analysis.statistics.families import shared_spread
from plat_analysis.statistics.sign_flips import shown_above, shown_below

SMALL, LARGE = "small", "large"


@takes(ChangeOptions)
def mean_delta_small(results: Results, change: ChangeOptions, *, only: Sequence[str] = ()) -> Verdict:
    """The treatment changes less than an effect of interest, on average over the columns or in each, in every row.

    Every change is claimed to be smaller than `smallest`, up or down.

    only       the rows that are judged (default: all)
    """
    grid = change.grid(results)
    evidence = {
        name: RowEvidence(average(cells, change.contrast), smallest=change.smallest, **change.shown(results))
        for row in chosen_rows(grid.rows, only)
        for name, cells in change.parts(grid, row).items()
    }
    return with_evidence(decide_small(evidence, change.looks), evidence)


def decide_small(evidence: Mapping[str, RowEvidence], looks: int = 1) -> Verdict:
    """Return the verdict on all rows, without numbers and runs. The error is divided by `looks`, the planned looks."""
    tests = row_tests(evidence)
    kinds = row_kinds(evidence, tests, LEVEL / looks)
    status, decided, p = outcome(kinds, tests)
    words = {
        SMALL: "within ±{0:g}{1}",
        LARGE: "beyond ±{0:g}{1}",
        OPEN: "not shown to be within or beyond ±{0:g}{1}",
        SHORT: "without enough data",
    }
    said = {row: words[kind].format(evidence[row].smallest, evidence[row].unit) for row, kind in kinds.items()}
    lines = {row: f"{said[row]}: {row_line(row, evidence[row])}" for row in kinds}
    rows = [row for row in kinds if kinds[row] == decided]
    by = lines[rows[0]] if len(rows) == 1 else f"{said[rows[0]]} in {len(rows)} of {len(kinds)}" if rows else ""
    remark = about(item.estimate for item in evidence.values())
    return remarked(Verdict(status, p=p, deciding=by), [*lines.values(), remark])


def row_tests(evidence: Mapping[str, RowEvidence]) -> dict[str, dict[str, float]]:
    """Return SMALL and LARGE -> row -> p-value, of the judged rows. The bounds are -`smallest` and `smallest`.

    A small p under SMALL shows that the change lies within both bounds, one under LARGE that it lies beyond one.
    """
    guarded = shared_spread(judged(evidence))
    bounds = {row: (estimate, evidence[row].smallest) for row, estimate in guarded.items()}
    return {
        SMALL: {row: max(shown_below(e, bound), shown_above(e, -bound)) for row, (e, bound) in bounds.items()},
        LARGE: {row: min(shown_above(e, bound), shown_below(e, -bound)) for row, (e, bound) in bounds.items()},
    }
