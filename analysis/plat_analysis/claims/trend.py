"""Whether a measure falls, or rises, along an order of conditions, in every row: Page's test (`statistics.trend`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.ordered import Direction, judge_trend
from plat_analysis.contrasts.contrast import Contrast, Term, change
from plat_analysis.data.runs import Results, spell
from plat_analysis.facets import AxisNames, Facets, Layout
from plat_analysis.options import checked_by
from plat_analysis.quantities.metric import quantity
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.statistics.trend import MIN_CONDITIONS

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
    direction: Direction = "falling",
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
    measured = quantity(measure)
    contrasts = {name: _contrast(name, measured, sides) for name in names}
    return judge_trend(facets, contrasts, measured.name, direction, looks)


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
    for first, second in combinations(dict.fromkeys(wanted), 2):
        facets.check_pairs(first, second)
        facets.check_different(first, second)
    return facets, names


def _joined(name: str, side: str) -> str:
    return " · ".join(filter(None, (name, side)))


def _contrast(name: str, measured: Quantity, sides: tuple[str, str] | None) -> Contrast:
    """The level of a condition, or its change between the sides of the pair."""
    if sides is None:
        return Contrast(Term(name, measured))
    return change(measured, *(_joined(name, side) for side in sides))
