"""Check that a measure falls, or rises, along an order of conditions, in every row (`statistics.significance`).

`trend_over_measures` judges several measures of the same runs in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis.artifact import interval, number, p_value
from plat_analysis.builder_options import takes
from plat_analysis.claims.decided import RowTests
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import ChosenRows, of_tests
from plat_analysis.claims.planned import PlannedRow, judge_by_looks
from plat_analysis.contrasts.cell import Cell, Contrast, Estimates, Term, asks_of, change, in_all
from plat_analysis.data.labels import label
from plat_analysis.data.results import Results, spell
from plat_analysis.facets import AxisNames, Facets, Layout
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.intervals import MIN_JUDGED, Estimate
from plat_analysis.statistics.replicates import Replicate, over_replicates
from plat_analysis.statistics.significance import MIN_CONDITIONS, falling, slope_rounding, slopes, trend_p


@dataclass(frozen=True, kw_only=True)
class Options:
    """Hold the options of a trend over conditions.

    conditions  the axis whose values are in order
    order       three or more of its values
    pair        an axis: judge the change from its value `baseline` to its value `treatment` under each condition
    rows        axes that make the rows (default: one row)
    """

    conditions: str
    order: Sequence[Any]
    pair: str | None = None
    baseline: Any = "none"
    treatment: Any = "top_p"
    rows: AxisNames = None

    @property
    def sides(self) -> tuple[str, str] | None:
        """Return the two values of the pair; None without one."""
        return None if self.pair is None else (spell(self.baseline), spell(self.treatment))

    def beforehand(self, results: Results) -> None:
        """Raise the SpecError of `laid_out`."""
        self.laid_out(results)

    def laid_out(self, results: Results) -> tuple[Facets, list[str]]:
        """Return the runs by condition (and side of the pair), and the conditions in order, as `spell` writes them.

        Raises SpecError if a condition has no runs, two are not paired or are the same runs, or they are too few.
        """
        conditions, pair = self.conditions, self.pair
        names = [spell(value) for value in self.order]
        wanted = [_joined(name, side) for name in names for side in self.sides or ("",)]
        axes = conditions if pair is None else (conditions, pair)
        facets = Facets(results, Layout.of(rows=self.rows, conditions=axes), only=wanted)
        known = dict.fromkeys(run.axis(conditions) for run in results.positions)
        for name in names:
            if name not in known:
                what = f"order: the axis {conditions!r} has no value {name!r}"
                raise SpecError(what, fix=suggest(name, known, "values"))
        if absent := [condition for condition in wanted if condition not in facets.conditions]:
            raise SpecError(f"no run has {conditions} · {pair} = {absent[0]}", fix="name values that the matrix has")
        if len(set(names)) < MIN_CONDITIONS:
            raise SpecError(
                f"order: a trend needs {MIN_CONDITIONS} different conditions, and {len(set(names))} are named",
                fix="name more of them, or compare two with mean_delta_positive",
            )
        for first, second in combinations(dict.fromkeys(wanted), 2):
            facets.check_pairs(first, second)
            facets.check_different(first, second)
        return facets, names


@takes(Options, by_looks=True)
def trend(
    results: Results, asked: Options, *, measure: Any = "final", direction: Direction = "falling", looks: int = 1
) -> Verdict:
    """A measure falls (or rises) from each of the conditions in `order` to the next, in every row; or its change does.

    Values are compared within each build and seed, by ranks (Page's test) and slope (`statistics.significance`). The
    verdict is about these builds of the base model.

    measure     the measure of a run (see `plat_analysis.quantities.metric`)
    looks       how often the claim will be judged while runs are added; the error is divided among these looks
    """
    facets, names = asked.laid_out(results)
    measured, sides = quantity(measure, results=results), asked.sides
    contrasts = {
        name: change(measured, *(_joined(name, side) for side in sides)) if sides else Contrast(Term(name, measured))
        for name in names
    }
    return judge_trend(facets, contrasts, measured.name, direction, looks)


def _joined(name: str, side: str) -> str:
    return " · ".join(filter(None, (name, side)))


Direction = Literal["falling", "rising"]


def judge_trend(
    facets: Facets, contrasts: Mapping[str, Contrast], named: str, direction: Direction, looks: int
) -> Verdict:
    """Return the verdict on a trend along the contrasts, in every row of a layout without columns.

    named  the name of a row whose own name is empty, as in a layout with one row only
    """
    estimates = Estimates(facets, builds="fixed")
    if facets.results.experiment.decide is not None:
        sign = -1 if direction == "falling" else 1
        rows = {row or named: _planned(estimates.cells[row, ""], contrasts, sign) for row in facets.rows}
        return judge_by_looks(facets.results, rows)
    tested = {
        row or named: _tested(row or named, estimates.cells[row, ""], contrasts, direction) for row in facets.rows
    }
    ids = (run.id for row in facets.rows for run in estimates.runs(row))
    return of_tests(tested, looks, ids, "about these builds of the base model, over their seeds")


def _planned(cell: Cell, contrasts: Mapping[str, Contrast], sign: int) -> PlannedRow:
    """Return a row whose mean slope is claimed to be above zero (sign +1) or below it (-1)."""
    values = {name: cell.by_replicate(contrast) for name, contrast in contrasts.items()}
    common = in_all(list(values.values()))
    blocks = [[column[replicate] for column in values.values()] for replicate in common]
    each = dict(zip(common, map(float, slopes(blocks)), strict=True)) if blocks else {}
    named = dict.fromkeys(term.condition for contrast in contrasts.values() for term in contrast.terms)
    slope = replace(over_replicates(each, builds="fixed"), asks=asks_of([cell.sides[name] for name in named]))
    measured = next(iter(contrasts.values())).of.quantity
    unit = " points" if measured.factor != 1 else ""
    return PlannedRow(slope, 0.0, ((sign, 0.0),), measured.digits + 1, unit)


def _tested(row: str, cell: Cell, contrasts: Mapping[str, Contrast], direction: Direction) -> RowTests:
    """Test the trend of one row over the builds and seeds that have all contrasts."""
    values = {name: cell.by_replicate(contrast) for name, contrast in contrasts.items()}
    common = in_all(list(values.values()))
    wanted = max(len(side.runs) for side in cell.sides.values())
    if len(common) < max(wanted, MIN_JUDGED):
        few = Estimate(seeds=len(common), wanted=wanted)
        return RowTests(None, None, f"{row} ({len(common)}/{wanted} blocks have every condition)", few)
    means = " → ".join(_mean(name, column, contrasts[name]) for name, column in values.items())
    blocks = [[column[replicate] for column in values.values()] for replicate in common]
    each: dict[Replicate, float] = dict(zip(common, map(float, slopes(blocks)), strict=True))
    rounding = slope_rounding(max(map(cell.rounding, contrasts.values())), len(contrasts))
    slope = over_replicates(each, rounding, builds="fixed")
    up, down = trend_p(blocks, slope), trend_p(falling(blocks), slope.scaled(-1.0))
    p, opposite = (down, up) if direction == "falling" else (up, down)
    digits = next(iter(contrasts.values())).of.quantity.digits + 1
    found = f"{number(slope.value, digits, True)} {interval(slope, digits, True)}".strip()
    tests = f"p {p_value(p)} (Page and slope), {len(common)} blocks"
    line = f"{row}: slope {found} from one condition to the next; {means}, {tests}"
    unit = "points" if next(iter(contrasts.values())).of.quantity.factor != 1 else ""
    sides = {term.condition: cell.sides[term.condition] for contrast in contrasts.values() for term in contrast.terms}
    ids = tuple(side.runs[replicate].id for side in sides.values() for replicate in common)
    return RowTests(p, opposite, line, replace(slope, wanted=wanted, run_ids=ids), unit)


def _mean(name: str, column: Mapping[Replicate, float], contrast: Contrast) -> str:
    mean = sum(column.values()) / len(column) if column else None
    return f"{label(name)} {number(mean, contrast.of.quantity.digits, signed=contrast.minus is not None)}"


# Check that several measures of the same runs fall, or rise, in their order, in every row (Figure 3, turns).


@dataclass(frozen=True, kw_only=True)
class OverMeasures(ChosenRows):
    """Hold the options of a trend over measures.

    measures  name -> the measure of a run (see `plat_analysis.quantities.metric`), three or more, in order
    """

    measures: Mapping[str, Any]

    def beforehand(self, results: Results) -> None:
        """Raise SpecError where there are too few measures for a trend, or their units differ."""
        _contrasts(self.measures)
        super().beforehand(results)


@takes(OverMeasures, by_looks=True)
def trend_over_measures(results: Results, asked: OverMeasures, *, direction: Direction = "falling") -> Verdict:
    """Measures of the same runs fall (or rise) from each to the next, in every row, or in those in `only`.

    Values are compared within each build and seed, by ranks (Page's test) and slope (`statistics.significance`). The
    verdict is about these builds of the base model.
    """
    facets, contrasts = asked.facets(results), _contrasts(asked.measures)
    return judge_trend(facets, contrasts, next(iter(contrasts)), direction, asked.looks)


def _contrasts(measures: Any) -> dict[str, Contrast]:
    """Return name -> the level of its measure. SpecError where the measures are not three in one unit."""
    if not isinstance(measures, Mapping) or len(measures) < MIN_CONDITIONS:
        count = len(measures) if isinstance(measures, Mapping) else 0
        raise SpecError(
            f"measures: a trend needs {MIN_CONDITIONS} named measures in order, and {count} are named",
            fix="write measures: {NAME: MEASURE, ...}",
        )
    given = list(measures.items())
    for index, (name, measure) in enumerate(given):
        for earlier, other in given[:index]:
            if measure == other:
                raise SpecError(f"measures: {earlier} and {name} are one measure", fix="name different measures")
    found = {str(name): quantity(measure, str(name)) for name, measure in given}
    if len({measured.factor for measured in found.values()}) > 1:
        raise SpecError(
            "measures: some are in percent and others are not", fix="give `percent: true` to all of them, or to none"
        )
    return {name: Contrast(Term("", measured)) for name, measured in found.items()}
