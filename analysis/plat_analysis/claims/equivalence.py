"""Whether the treatment changes next to nothing: every change is shown to be smaller than an effect of interest.

A change that is not shown to differ from zero may still be large. Here the burden is the other way round (two one-sided
tests, TOST): a row is *small* when it is shown, at one-sided 2.5 % on either side, that its change lies within
-`smallest` and +`smallest`; it is *large* when Holm's procedure over the rows shows that it lies outside. The tests are
those of `plat_analysis.claims.rows`. The claim is

- reproduced: every row is small;
- not reproduced: some row is large;
- partial: some rows are small, by Holm's procedure over the rows;
- undecided: none of these;
- not enough data: some row has a run missing, or fewer than five seeds (or builds, where such builds are meant).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import ChangeOptions, chosen_rows, verdict
from plat_analysis.claims.rows import LEVEL, Decision, RowEvidence, about, all_of, any_of, row_line, shown
from plat_analysis.contrasts.cell import average
from plat_analysis.options import takes
from plat_analysis.statistics.families import shared_spread
from plat_analysis.statistics.sign_flips import shown_above, shown_below

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames

SMALL, LARGE, OPEN, SHORT = "small", "large", "open", "short"


@takes(ChangeOptions)
def mean_delta_small(
    frames: Frames, experiment: Experiment, change: ChangeOptions, *, only: Sequence[str] = ()
) -> Verdict:
    """The treatment changes less than an effect of interest, on average over the columns or in each, in every row.

    The claim is that every change is smaller than `smallest`, up or down.

    only       the rows that are judged (default: all)
    """
    grid = change.grid(frames, experiment)
    evidence = {
        name: RowEvidence(average(cells, change.contrast), smallest=change.smallest, **change.shown)
        for row in chosen_rows(grid.rows, only)
        for name, cells in change.parts(grid, row).items()
    }
    return verdict(decide_small(evidence, change.looks), evidence)


def decide_small(evidence: Mapping[str, RowEvidence], looks: int = 1) -> Decision:
    """The verdict on all rows together, at one of so many looks at the claim."""
    inside, outside = row_tests(evidence)
    kinds = row_kinds(evidence, LEVEL / looks)
    p = None
    if not kinds or SHORT in kinds.values():
        status, decided = "not_enough_data", SHORT
    elif LARGE in kinds.values():
        status, decided, p = "not_reproduced", LARGE, any_of(outside)
    elif set(kinds.values()) == {SMALL}:
        status, decided, p = "reproduced", SMALL, all_of(inside)
    elif SMALL in kinds.values():
        status, decided, p = "partial", SMALL, any_of(inside)
    else:
        status, decided = "undecided", OPEN
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
    return Decision(status, tuple(filter(None, [*lines.values(), remark])), p, by)


def row_tests(evidence: Mapping[str, RowEvidence]) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """Row -> p-value of "it is not within the bounds", and of "it is not beyond one of them"."""
    judged = {row: item for row, item in evidence.items() if item.enough}
    guarded = shared_spread({row: item.estimate for row, item in judged.items()})
    inside: dict[str, float | None] = {}
    outside: dict[str, float | None] = {}
    for row, item in judged.items():
        estimate, bound = guarded[row], item.smallest
        above, below = shown_above(estimate, bound), shown_below(estimate, -bound)
        under, over = shown_below(estimate, bound), shown_above(estimate, -bound)
        if above is not None and below is not None and under is not None and over is not None:
            outside[row], inside[row] = min(above, below), max(under, over)
    return inside, outside


def row_kinds(evidence: Mapping[str, RowEvidence], level: float = LEVEL) -> dict[str, str]:
    """Row -> small, large, open or short."""
    inside, outside = row_tests(evidence)
    every_row = len(inside) == len(evidence) and all(p is not None and p <= level for p in inside.values())
    small = set(inside) if every_row else shown(inside, level)
    kinds = {row: OPEN if item.enough else SHORT for row, item in evidence.items()}
    return kinds | dict.fromkeys(small, SMALL) | dict.fromkeys(shown(outside, level), LARGE)


MEAN_DELTA_SMALL = mean_delta_small
