"""Check the axes and values that an entry of `report` or `claims` names, and lay its runs out without results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from plat.errors import SpecError
from plat.spec.expansion.experiment import Experiment
from plat.suggest import suggest
from plat_analysis.contrasts.comparison import Comparison, check_sides
from plat_analysis.contrasts.units import check_units
from plat_analysis.data.results import Results, RunView, spell
from plat_analysis.facets import Facets, Layout, rows_or, two_conditions

ROWS = ("row", "than")
COMPARED = frozenset(field.name for field in fields(Comparison)) - {"builds"}  # what lays out the runs


def check_axes(experiment: Experiment, name: str, given: Any, default: bool) -> None:
    """Raise SpecError where an axis does not exist.

    name     the argument that names the axes, for the message
    given    an axis, a list of axes, or None
    default  the entry does not give the argument
    """
    for axis in [given] if isinstance(given, str) else given or ():
        if axis in experiment.axes:
            continue
        try:
            for run in experiment.runs:
                RunView(run, None, "", {}, run.axes).axis(axis)
        except SpecError:
            what = f"{name}: {axis!r} is not an axis of the experiment"
            if default:
                axes = ", ".join(experiment.axes)
                raise SpecError(
                    f"{what}; it is the default, because the entry does not name `{name}`",
                    fix=f"add `{name}: AXIS` to the entry; axes: {axes}",
                ) from None
            raise SpecError(what, fix=suggest(axis, experiment.axes, "axes")) from None


def check_value(experiment: Experiment, pair: str, name: str, given: Any) -> None:
    """Raise SpecError where the axis `pair` has no value `given`; None passes. `name`: the argument that gives it."""
    if given is None:
        return
    known = [*experiment.axes.get(pair, ()), *experiment.left_out.get(pair, ())]
    positions = {id(run): RunView(run, None, "", {}, run.axes).axis(pair) for run in experiment.runs}
    included = [axes[pair] for axes, _ in experiment.cells if pair in axes]
    values = dict.fromkeys([*map(spell, known), *map(spell, included), *positions.values()])
    if spell(given) not in values:
        what = f"{name}: the axis {pair!r} has no value {spell(given)!r}"
        raise SpecError(what, fix=suggest(spell(given), values, "values"))


def check_layout(experiment: Experiment, arguments: Mapping[str, Any]) -> None:
    """Lay the runs out as a builder with these arguments would, without results. Raises SpecError if that fails."""
    if arguments.keys() >= COMPARED:
        compared = Comparison(**{name: arguments[name] for name in COMPARED})
        units = arguments.get("units", "pairs")
        grid = compared.grid(Results.planned(experiment), paired=units == "pairs")
        check_units(units, grid)
        named = [arguments[name] for name in ROWS if name in arguments]
        for row in [*(arguments.get("only") or ()), *named]:
            if row not in grid.rows:
                raise SpecError(f"there is no row {row!r}", fix=suggest(row, grid.rows, "rows"))
        if len(set(named)) < len(named):
            raise SpecError(f"the row {named[0]!r} is compared with itself", fix="name two different rows")
        _check_both_sides(experiment, str(arguments["pair"]), grid.baseline, grid.treatment)
        check_sides(grid, arguments.get("differ_in") or ())
    elif arguments.keys() >= {"rows", "columns", "pair"}:
        rows = rows_or(arguments["rows"], experiment, None)
        Facets(Results.planned(experiment), Layout.of(rows, arguments["columns"], arguments["pair"]))
    elif arguments.keys() >= {"pair", "baseline", "treatment"}:
        pair = arguments["pair"]
        facets = Facets(Results.planned(experiment), Layout.of(conditions=pair))
        first, second = two_conditions(facets, arguments["baseline"], arguments["treatment"])
        _check_both_sides(experiment, pair, first, second)
    elif isinstance(rows := arguments.get("rows"), str | list) and "columns" in arguments:
        Facets(Results.planned(experiment), Layout.of(rows, arguments["columns"]))


def _check_both_sides(experiment: Experiment, pair: str, first: str, second: str) -> None:
    """Raise SpecError where only one of the two compared values has runs."""
    present = {run.axis(pair) for run in Results.planned(experiment).positions}
    missing = [value for value in dict.fromkeys((first, second)) if value not in present]
    if first != second and not missing:
        return
    what = f"no run has {pair}={missing[0]}" if missing else f"every run has {pair}={first}"
    chosen = [override for override in experiment.overrides if override.split("=")[0] in (pair, f"matrix.{pair}")]
    raise SpecError(
        f"there are no two sides to compare: {what}",
        fix=f"leave out the override {' '.join(chosen)}, so that both sides run"
        if chosen
        else f"give the axis {pair!r} of the matrix both values",
    )
