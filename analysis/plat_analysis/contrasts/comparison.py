"""Options of everything that compares two conditions, and the runs that they choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plat.errors import SpecError
from plat.spec.composition.schema import leaves
from plat.suggest import suggest
from plat_analysis.contrasts.cell import Estimates, success_contrasts
from plat_analysis.data.results import Results, RunView, spell
from plat_analysis.facets import Facets, Layout, rows_or
from plat_analysis.statistics.replicates import Builds


@dataclass(frozen=True)
class Comparison:
    """Hold two conditions in every cell of rows x columns, by the names of the experiment file.

    rows       an axis, or several that are joined (default: `variant` where the matrix has it, else the algorithm)
    columns    an axis, or several that are joined
    pair       the axis whose two values `baseline` and `treatment` are compared
    builds     what intervals, stars and verdicts are about where there are several builds of the base model: `fixed`,
               these builds, over their seeds; or `random`, such builds, from three on
    """

    rows: str | Sequence[str] | None = None
    columns: str | Sequence[str] = "task"
    pair: str = "filter"
    baseline: Any = "none"
    treatment: Any = "top_p"
    builds: Builds = "random"

    def grid(self, results: Results, paired: bool = True) -> Compared:
        """Return the runs laid out.

        Raises SpecError if no run has either condition, two runs of one seed and build are in one place, or the two
        sides of a cell both have runs, of different seeds or builds. One side may lack runs. If not `paired`, seeds may
        differ.
        """
        rows = rows_or(self.rows, results.experiment, "algorithm" if self.pair != "algorithm" else None)
        baseline, treatment = spell(self.baseline), spell(self.treatment)
        facets = Facets(results, Layout.of(rows, self.columns, self.pair), only=(baseline, treatment))
        if not facets.places:
            raise SpecError(
                f"no run has {self.pair} = {baseline} or {treatment}",
                fix="name an axis of the matrix as `pair`, and two of its values as `baseline` and `treatment`",
            )
        if paired:
            facets.check_pairs(baseline, treatment)
        return Compared(facets, baseline, treatment, self.builds)


class Compared(Estimates):
    """Estimate two conditions in every row and column.

    contrasts  the levels and changes of success, by name: `peak`, `delta`, `final_delta`, ...
    """

    def __init__(self, facets: Facets, baseline: str, treatment: str, builds: Builds = "random") -> None:
        super().__init__(facets, (baseline, treatment), builds)
        self.baseline, self.treatment = baseline, treatment
        self.contrasts = success_contrasts(baseline, treatment)


def check_sides(grid: Compared, differ_in: Sequence[str]) -> None:
    """Raise SpecError where the runs of a pair differ in an option that `differ_in` does not name, or are the same run.

    Pairs are runs of equal row, column, seed and build. With an empty `differ_in` they may differ in any option. An
    option includes all options below it. An option of a group includes the group's name: with `[filter.rule]` the runs
    may differ in `filter.name`, too. Raises SpecError as well if `differ_in` names an option that no run has.
    """
    for cell in grid.cells.values():
        treated_runs = cell.sides[grid.treatment].runs
        for replicate, untreated in cell.sides[grid.baseline].runs.items():
            treated = treated_runs.get(replicate)
            if treated is not None:
                _check_pair(grid, f"{cell.row} × {cell.column}", untreated, treated, differ_in)


def _check_pair(grid: Compared, place: str, untreated: RunView, treated: RunView, differ_in: Sequence[str]) -> None:
    """Raise SpecError as `check_sides` does, for one pair; `place` is its cell, for the message."""
    sides = [leaves(view.run.config) for view in (untreated, treated)]
    known = sorted({*sides[0], *sides[1]})
    for name in differ_in:
        if not any(_within(key, name) for key in known):
            raise SpecError(f"differ_in: no run has an option {name!r}", fix=suggest(name, known, "options"))
    different = [key for key in known if sides[0].get(key) != sides[1].get(key)]
    baseline, treatment = grid.baseline, grid.treatment
    if not different:
        raise SpecError(
            f"{baseline} and {treatment} are the same run, {place}: {untreated.run.name}",
            fix="compare two conditions whose options differ",
        )
    if not differ_in:
        return
    uncontrolled = [key for key in different if not _allowed(key, differ_in)]
    if uncontrolled:
        key = uncontrolled[0]
        values = [spell(side[key]) if key in side else "absent" for side in sides]
        others = f", and {len(uncontrolled) - 1} more" if len(uncontrolled) > 1 else ""
        raise SpecError(
            f"the two sides differ in more than differ_in names, {place}: {key} is {values[0]} for {baseline} and "
            f"{values[1]} for {treatment}{others}",
            fix=f"give both sides the same {key}, or name it under differ_in",
        )


def _within(key: str, name: str) -> bool:
    """Return True if `key` is the option `name`, or lies below it."""
    return key == name or key.startswith(name + ".")


def _allowed(key: str, differ_in: Sequence[str]) -> bool:
    """Return True if two sides may differ in `key`: an option below one of `differ_in`, or the name of its group."""
    group = key.removesuffix(".name")
    return any(_within(key, name) or (group != key and _within(name, group)) for name in differ_in)
