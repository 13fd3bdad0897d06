"""Whether the two sides of a comparison differ in what it is about, and in nothing else.

A control is worth what its sides have in common. `differ_in` names the options in which the runs of a pair may differ;
an option stands for all below it, and a group's name goes with its options. Everything else must be equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from plat.errors import SpecError
from plat.spec.schema import leaves
from plat.suggest import mend
from plat_analysis.contrasts.comparison import Compared
from plat_analysis.data.runs import RunView, spell


def check_sides(grid: Compared, differ_in: Sequence[str]) -> None:
    """SpecError where the runs of a pair differ in an option that `differ_in` does not name, or are one and the same.

    Pairs are runs of equal row, column, seed and build. Where `differ_in` is empty they may differ in any option.
    """
    for cell in grid.cells.values():
        treated_runs = cell.sides[grid.treatment].runs
        for replicate, untreated in cell.sides[grid.baseline].runs.items():
            treated = treated_runs.get(replicate)
            if treated is not None:
                _check_pair(grid, f"{cell.row} × {cell.column}", untreated, treated, differ_in)


def _check_pair(grid: Compared, place: str, untreated: RunView, treated: RunView, differ_in: Sequence[str]) -> None:
    sides = [leaves(view.run.config) for view in (untreated, treated)]
    known = sorted({*sides[0], *sides[1]})
    for name in differ_in:
        if not any(_within(key, name) for key in known):
            raise SpecError(f"differ_in: no run has an option {name!r}", mend=mend(name, known, "options"))
    different = [key for key in known if sides[0].get(key) != sides[1].get(key)]
    baseline, treatment = grid.baseline, grid.treatment
    if not different:
        raise SpecError(
            f"{baseline} and {treatment} are the same run, {place}: {untreated.run.name}",
            mend="compare two conditions whose options differ",
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
            mend=f"give both sides the same {key}, or name it under differ_in",
        )


def _within(key: str, name: str) -> bool:
    return key == name or key.startswith(name + ".")


def _allowed(key: str, differ_in: Sequence[str]) -> bool:
    group = key.removesuffix("name")
    return any(_within(key, name) or (group != key and name.startswith(group)) for name in differ_in)
