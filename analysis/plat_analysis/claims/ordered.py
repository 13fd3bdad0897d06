"""A trend along an order of numbers of each build and seed, in every row: what the two checks of one share.

The numbers are a measure of several conditions (`trend`), or several measures of the same runs (`trend_over_measures`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from plat_analysis.artifact import interval, number, p_value
from plat_analysis.claims.decided import RowTests, decide
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import judged
from plat_analysis.contrasts.cell import Cell
from plat_analysis.contrasts.contrast import Contrast
from plat_analysis.contrasts.estimates import Estimates
from plat_analysis.data.labels import label
from plat_analysis.facets import Facets
from plat_analysis.statistics.intervals import MIN_JUDGED
from plat_analysis.statistics.replicates import Replicate, over_replicates
from plat_analysis.statistics.trend import falling, slope_rounding, slopes, trend_p

Direction = Literal["falling", "rising"]


def judge_trend(
    facets: Facets, contrasts: Mapping[str, Contrast], named: str, direction: Direction, looks: int
) -> Verdict:
    """The verdict on a trend from each of the contrasts to the next, in every row of a layout without columns.

    named  what a single row is called
    """
    estimates = Estimates(facets, builds="fixed")
    tested = {
        row or named: _tested(row or named, estimates.cells[row, ""], contrasts, direction) for row in facets.rows
    }
    decision = decide(tested, looks)
    ids = tuple(dict.fromkeys(run.id for row in facets.rows for run in estimates.runs(row)))
    lines = (*decision.lines, "about these builds of the base model, over their seeds")
    return judged(replace(decision, lines=lines), {row: item.estimate for row, item in tested.items()}, ids)


def _tested(row: str, cell: Cell, contrasts: Mapping[str, Contrast], direction: Direction) -> RowTests:
    """The trend of one row over the builds and seeds that every condition has."""
    values = {name: cell.by_replicate(contrast) for name, contrast in contrasts.items()}
    common = [replicate for replicate in next(iter(values.values())) if all(replicate in v for v in values.values())]
    wanted = max(len(side.runs) for side in cell.sides.values())
    if len(common) < max(wanted, MIN_JUDGED):
        return RowTests(None, None, f"{row} ({len(common)}/{wanted} blocks have every condition)")
    means = " → ".join(_mean(name, column, contrasts[name]) for name, column in values.items())
    blocks = [[column[replicate] for column in values.values()] for replicate in common]
    each: dict[Replicate, float] = dict(zip(common, map(float, slopes(blocks)), strict=True))
    rounding = slope_rounding(max(map(cell.rounding, contrasts.values())), len(contrasts))
    slope = over_replicates(each, rounding, builds="fixed")
    up, down = trend_p(blocks, slope), trend_p(falling(blocks), slope.scaled(-1.0))
    p, opposite = (down, up) if direction == "falling" else (up, down)
    digits = next(iter(contrasts.values())).of.quantity.digits + 1
    found = f"{number(slope.value, digits, True)} {interval(slope, digits, True)}".strip()
    line = f"{row}: {means}; slope {found} from one to the next, p {p_value(p)} (Page and slope), {len(common)} blocks"
    return RowTests(p, opposite, line, slope)


def _mean(name: str, column: Mapping[Replicate, float], contrast: Contrast) -> str:
    mean = sum(column.values()) / len(column) if column else None
    return f"{label(name)} {number(mean, contrast.of.quantity.digits, signed=contrast.minus is not None)}"
