"""Shared parts of the checks: options of a change, the judged rows, and the verdict with its evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis.artifact import interval
from plat_analysis.claims.decided import RowEvidence, RowTests, decide, remarked
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.record import numbered_rows
from plat_analysis.contrasts.cell import Cell, Contrast, change
from plat_analysis.contrasts.comparison import Compared, Comparison, check_sides
from plat_analysis.contrasts.setting_correlations import Settings
from plat_analysis.contrasts.units import Units, check_units, estimate_over, task_pairs
from plat_analysis.data.labels import label, value_label
from plat_analysis.data.results import Results, spell
from plat_analysis.facets import AxisNames, Facets, Layout
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.tasks import within_tasks

JOINT = " · "  # between the values of a row of several axes


@dataclass(frozen=True)
class ChangeOptions(Comparison):
    """Hold the options of a comparison whose change is judged.

    measure    what changes: success at the `peak`, of the peak checkpoint on held-out instances (`heldout`), of the
               last one (`final`), or any measure (see `plat_analysis.quantities.metric`)
    smallest   the smallest effect of interest in points, or in the unit of the measure
    differ_in  the options in which the two sides of a pair may differ; others are refused (default: any may differ)
    looks      how often the claim will be judged while runs are added; the error is divided among these looks
    by_column  judge every column of a row alone, not their mean; all of them share the error of the claim (Holm)
    """

    measure: str | Mapping[str, Any] = "peak"
    smallest: float = 5.0
    differ_in: Sequence[str] = ()
    looks: int = 1
    by_column: bool = False

    @property
    def contrast(self) -> Contrast:
        """Return the change that is judged."""
        return change(quantity(self.measure), spell(self.baseline), spell(self.treatment))

    def shown(self, results: Results) -> dict[str, Any]:
        """Return `digits` and `unit` for `RowEvidence`: decimals, and ` points` for a measure in percent, else ""."""
        measured = quantity(self.measure, results=results)
        return {"digits": measured.digits, "unit": " points" if measured.factor != 1 else ""}

    @property
    def sides(self) -> str:
        """Return which change it is, in words: `Top-p minus no filter`."""
        return " minus ".join(value_label(self.pair, spell(side)) for side in (self.treatment, self.baseline))

    def between(self, row: str, than: str) -> str:
        """Return two rows in words, by the axes in which they differ: `entropy coefficient 0.01 against 0`."""
        axes = [self.rows] if isinstance(self.rows, str) else list(self.rows or ())
        parts = list(zip(axes, row.split(JOINT), than.split(JOINT), strict=False))
        if not row.count(JOINT) == than.count(JOINT) == len(axes) - 1:
            return f"{row} against {than}"
        return JOINT.join(f"{value_label(axis, one)} against {other}" for axis, one, other in parts if one != other)

    def spoken(self, verdict: Verdict, names: Mapping[str, str] | None = None) -> Verdict:
        """Return the verdict whose deciding reason says which change its signed number is.

        names  row -> its name in words; None: the rows are said as they are
        """
        text = verdict.deciding
        for row, name in (names or {}).items():
            text = text.replace(row, name)
        found = re.search(r" [+−]\d", text)
        if found is None or f"{self.pair} = " in text:  # it says the sides itself
            return replace(verdict, deciding=text)
        heading, colon, row = text[: found.start()].rpartition(": ")
        heading = f"{heading}, {self.sides}" if colon else self.sides
        return replace(verdict, deciding=f"{heading}: {row}{text[found.start() :]}")

    def grid(self, results: Results, paired: bool = True) -> Compared:
        """Return the runs laid out as by `Comparison.grid`. Raises what that raises.

        Raises SpecError as `check_sides` does, too: if both sides of a pair are the same run, or if they differ in an
        option that is not in `differ_in`. An empty `differ_in` allows every difference.
        """
        grid = super().grid(results, paired)
        check_sides(grid, self.differ_in)
        return grid

    def parts(self, grid: Compared, row: str) -> dict[str, list[Cell]]:
        """Return name -> the cells whose mean is judged: all of a row, or each of them alone (`Sokoban, grpo`).

        The only row is named by its two sides: `lr = 0.01 against 0.1`.
        """
        cells = grid.row(row)
        if self.by_column:
            return {", ".join(filter(None, [label(cell.column), row])): [cell] for cell in cells}
        values = [spell(value) for value in grid.results.experiment.axes.get(self.pair, ())]
        is_first = values[:2] == [grid.baseline, grid.treatment]
        of = f", the first two of {len(values)} values" if is_first and len(values) > 2 else ""
        return {row or f"{self.pair} = {grid.treatment} against {grid.baseline}{of}": cells}


@dataclass(frozen=True)
class UnitOptions(ChangeOptions):
    """Hold the options of a comparison that names its independent units.

    units      what was drawn independently: `pairs` of runs with equal seed and build; `runs`, those of each side for
               themselves, with any seeds (Welch's t and permutations); or `tasks`, the columns, each with its mean
               change over its runs (from eight tasks on, with any number of seeds)
    """

    units: Units = "pairs"

    def grid(self, results: Results, paired: bool = True) -> Compared:
        """Return the runs laid out as by `ChangeOptions.grid`; only `pairs` need equal seeds on both sides.

        Raises SpecError as well if `runs` are units and start from several builds of the base model, and with `decide`
        for units other than pairs.
        """
        if results.experiment.decide is not None and self.units != "pairs":
            what = f"units: {self.units} cannot be judged while pairs of runs are added (`decide`)"
            raise SpecError(what, fix="leave `units` out, or sweep without decide")
        grid = super().grid(results, self.units == "pairs")
        check_units(self.units, grid)
        return grid

    def estimate(self, cells: Sequence[Cell]) -> Estimate:
        """Return the mean change over these cells, with the interval over the units."""
        return estimate_over(self.units, cells, self.contrast)

    def remarks(self, grid: Compared, rows: Sequence[str]) -> list[str]:
        """Return for `tasks` a sentence for each row on these tasks alone, over their runs; else []."""
        remarks = []
        for row in rows if self.units == "tasks" else ():
            within = within_tasks(task_pairs(grid.row(row), self.contrast))
            if within.low is not None:
                bounds = interval(within, quantity(self.measure).digits, signed=True)
                name = f"{row}: " if row else ""
                remarks.append(f"{name}further runs of these tasks, paired by seed: {bounds}")
        return remarks


@dataclass(frozen=True, kw_only=True)
class ChosenRows:
    """Hold the options of a check that judges rows.

    rows     axes that make the rows (default: one row)
    only     the rows that are judged (default: all)
    looks    how often the claim will be judged while runs are added; the error is divided among these looks
    """

    rows: AxisNames = None
    only: Sequence[str] = ()
    looks: int = 1

    def facets(self, results: Results) -> Facets:
        """Return the runs of the judged rows.

        Raises SpecError where `only` names an unknown row, or two runs have one position in the layout.
        """
        facets = Facets(results, Layout.of(rows=self.rows))
        facets.rows = chosen_rows(facets.rows, self.only)
        return facets

    def beforehand(self, results: Results) -> None:
        """Raise the SpecError of `facets`."""
        self.facets(results)


def chosen_rows(rows: Sequence[str], only: Sequence[str]) -> list[str]:
    """Return the rows in `only`, in the order of `rows`; all if it is empty. Raises SpecError for an unknown row."""
    unknown = [row for row in only if row not in rows]
    if unknown:
        raise SpecError(f"only: there is no row {unknown[0]!r}", fix=suggest(unknown[0], rows, "rows"))
    return [row for row in rows if not only or row in only]


def with_evidence(verdict: Verdict, evidence: Mapping[str, RowEvidence]) -> Verdict:
    """Return the verdict with the numbers and runs of its rows."""
    estimates = {row: item.estimate for row, item in evidence.items()}
    ids = (run for estimate in estimates.values() for run in estimate.run_ids)
    return with_numbers(verdict, estimates, ids, {row: item.unit for row, item in evidence.items()})


def with_numbers(
    verdict: Verdict, estimates: Mapping[str, Estimate], run_ids: Iterable[str], units: Mapping[str, str]
) -> Verdict:
    """Return the verdict with its runs and each row's number, and its interval where it is over seeds or builds."""
    return replace(
        verdict,
        rows=numbered_rows(verdict.rows, estimates, units),
        value={row: estimate.value for row, estimate in estimates.items() if estimate.value is not None},
        run_ids=tuple(dict.fromkeys(run_ids)),
        bounds={
            row: (estimate.low, estimate.high)
            for row, estimate in estimates.items()
            if estimate.low is not None and estimate.high is not None and estimate.over != "instances"
        },
    )


def over_settings(
    of_rows: Mapping[str, Settings],
    measures: Mapping[str, Any],
    test: Callable[[str, Settings, Any], RowTests],
    looks: int,
) -> Verdict:
    """Test each measure in each row, and return the verdict on all these tests, without the numbers of rows.

    of_rows   name of a row -> its settings
    measures  name of a measure -> the measure; the name may be ""
    test      called with the name of the test (`row, measure`), the settings of the row, and the measure
    looks     how often the claim will be judged while runs are added; the error is divided among these looks
    """
    tested = {}
    for row, settings in of_rows.items():
        for shown, measure in measures.items():
            name = ", ".join(filter(None, [row, shown]))
            tested[name] = test(name, settings, measure)
    ids = (run for settings in of_rows.values() for run in settings.run_ids)
    return without_numbers(tested, looks, ids, "about these builds of the base model, over settings like these")


def without_numbers(tested: Mapping[str, RowTests], looks: int, run_ids: Iterable[str], remark: str) -> Verdict:
    """Return the verdict on tests; the first reason decides, `remark` is the last. It has no `value`."""
    verdict = remarked(decide(tested, looks), [remark])
    rows = numbered_rows(verdict.rows, {row: item.estimate for row, item in tested.items()}, {})
    return replace(verdict, run_ids=tuple(dict.fromkeys(run_ids)), rows=rows)


def of_tests(tested: Mapping[str, RowTests], looks: int, run_ids: Iterable[str], *remarks: str) -> Verdict:
    """Return the verdict on tests with the number of each row; `remarks` are the last reasons."""
    verdict = remarked(decide(tested, looks), remarks)
    estimates, units = ({row: getattr(item, name) for row, item in tested.items()} for name in ("estimate", "unit"))
    return with_numbers(verdict, estimates, run_ids, units)
