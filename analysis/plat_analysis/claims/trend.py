"""Whether a measure falls, or rises, along an order of conditions, in every row: Page's test (`statistics.trend`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.artifact import interval, number, p_value
from plat_analysis.claims.decided import RowTests, decide
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import judged
from plat_analysis.contrasts.cell import Cell
from plat_analysis.contrasts.contrast import Contrast, Term, change
from plat_analysis.contrasts.estimates import Estimates
from plat_analysis.data.labels import label
from plat_analysis.data.runs import Results, spell
from plat_analysis.facets import AxisNames, Facets, Layout
from plat_analysis.options import checked_by
from plat_analysis.quantities.metric import quantity
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.statistics.intervals import MIN_JUDGED
from plat_analysis.statistics.replicates import Replicate, over_replicates
from plat_analysis.statistics.trend import MIN_CONDITIONS, falling, slope_rounding, slopes, trend_p

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames


def _beforehand(
    results: Results,
    *,
    conditions: str,
    order: Sequence[Any],
    rows: AxisNames = None,
    pair: str | None = None,
    baseline: Any = "none",
    treatment: Any = "top_p",
    **_: Any,
) -> None:
    """SpecError where the order cannot be judged."""
    sides = None if pair is None else (spell(baseline), spell(treatment))
    _laid_out(results, rows, conditions, order, pair, sides)


@checked_by(_beforehand)
def trend(
    frames: Frames,
    experiment: Experiment,
    *,
    conditions: str,
    order: Sequence[Any],
    measure: Any = "final",
    pair: str | None = None,
    baseline: Any = "none",
    treatment: Any = "top_p",
    direction: Literal["falling", "rising"] = "falling",
    rows: AxisNames = None,
    looks: int = 1,
) -> Verdict:
    """A measure falls (or rises) from each of the conditions in `order` to the next, in every row; or its change does.

    Values are compared within each build and seed, by their ranks (Page's test) and their slope (`statistics.trend`).
    The verdict is about these builds of the base model.

    conditions  the axis whose values are in order
    order       three or more of its values
    measure     what is measured of a run (see `plat_analysis.quantities.metric`)
    pair        an axis: judge what changes from its value `baseline` to its value `treatment` under each condition
    rows        axes that make the rows (default: one row)
    looks       how often the claim is going to be judged while runs are added; the error is divided among these looks
    """
    sides = None if pair is None else (spell(baseline), spell(treatment))
    facets, names = _laid_out(Results.of(frames, experiment), rows, conditions, order, pair, sides)
    estimates, measured = Estimates(facets, builds="fixed"), quantity(measure)
    contrasts = {name: _contrast(name, measured, sides) for name in names}
    tested = {
        row or measured.name: _tested(row or measured.name, estimates.cells[row, ""], contrasts, direction)
        for row in facets.rows
    }
    decision = decide(tested, looks)
    ids = tuple(dict.fromkeys(run.id for row in facets.rows for run in estimates.runs(row)))
    lines = (*decision.lines, "about these builds of the base model, over their seeds")
    return judged(replace(decision, lines=lines), {row: item.estimate for row, item in tested.items()}, ids)


TREND = trend


def _laid_out(
    results: Results,
    rows: AxisNames,
    conditions: str,
    order: Sequence[Any],
    pair: str | None,
    sides: tuple[str, str] | None,
) -> tuple[Facets, list[str]]:
    """The runs by condition (and side of the pair), and the conditions in order.

    SpecError where one has no runs, or there are too few for a trend.
    """
    names = [spell(value) for value in order]
    wanted = [_joined(name, side) for name in names for side in sides or ("",)]
    axes = conditions if pair is None else (conditions, pair)
    facets = Facets(results, Layout.of(rows=rows, conditions=axes), only=wanted)
    known = dict.fromkeys(run.axis(conditions) for run in results.positions)
    for name in names:
        if name not in known:
            what = f"order: the axis {conditions!r} has no value {name!r}"
            raise SpecError(what, mend=mend(name, known, "values"))
    if absent := [condition for condition in wanted if condition not in facets.conditions]:
        raise SpecError(f"no run has {conditions} · {pair} = {absent[0]}", mend="name values that the matrix has")
    if len(set(names)) < MIN_CONDITIONS:
        raise SpecError(
            f"order: a trend needs {MIN_CONDITIONS} different conditions, and {len(set(names))} are named",
            mend="name more of them, or compare two with mean_delta_positive",
        )
    for first, second in pairwise(wanted):
        facets.check_pairs(first, second)
    return facets, names


def _joined(name: str, side: str) -> str:
    return " · ".join(filter(None, (name, side)))


def _contrast(name: str, measured: Quantity, sides: tuple[str, str] | None) -> Contrast:
    """The level of a condition, or its change between the sides of the pair."""
    if sides is None:
        return Contrast(Term(name, measured))
    return change(measured, *(_joined(name, side) for side in sides))


def _tested(row: str, cell: Cell, contrasts: Mapping[str, Contrast], direction: str) -> RowTests:
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
