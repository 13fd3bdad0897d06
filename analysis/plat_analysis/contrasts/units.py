"""Estimate a change over other units than pairs of runs: over runs that share no seeds, or over tasks.

units: pairs   runs of equal seed and build, one on each side (`contrasts.cell`)
units: runs    the runs of each side for themselves: their seeds may differ, and their numbers
units: tasks   the columns: the mean change of each task is one number, from however few runs
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from plat.errors import SpecError
from plat_analysis.contrasts.cell import Cell, Contrast, Estimates, average, common_means, mean_rounding
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import these_builds
from plat_analysis.statistics.tasks import over_tasks
from plat_analysis.statistics.unpaired import over_runs

Units = Literal["pairs", "runs", "tasks"]


def estimate_over(units: Units, cells: Sequence[Cell], contrast: Contrast) -> Estimate:
    """Return the mean change over these cells, a column each, with the interval over the units."""
    if units == "pairs":
        return average(cells, contrast)
    return (_over_runs if units == "runs" else _over_tasks)(cells, contrast)


def _over_runs(cells: Sequence[Cell], contrast: Contrast) -> Estimate:
    """Estimate an unpaired change: each run of a side is a unit, with its mean over the columns."""
    sides = [
        common_means([cell.by_replicate(Contrast(term)) for cell in cells]) if cells else {} for term in contrast.terms
    ]
    wanted = [set().union(*(cell.sides[term.condition].runs for cell in cells)) for term in contrast.terms]
    facts = {**_facts(cells, contrast), "wanted": sum(map(len, wanted))}
    baseline, treatment = (list(side.values()) for side in sides)
    return over_runs(baseline, treatment, mean_rounding(cells, contrast), **facts)


def _over_tasks(cells: Sequence[Cell], contrast: Contrast) -> Estimate:
    """Estimate a change with tasks as units: the difference of the means of each column, from all of its runs."""
    changes, runs = {}, 0
    for cell in cells:
        sides = [list(cell.by_replicate(Contrast(term)).values()) for term in contrast.terms]
        if all(sides):
            changes[cell.column] = float(np.mean(sides[-1]) - np.mean(sides[0]))
            runs += sum(map(len, sides))
    wanted = sum(len(cell.sides[term.condition].runs) for cell in cells for term in contrast.terms)
    return over_tasks(changes, **{**_facts(cells, contrast), "wanted": wanted, "seeds": runs})


def task_pairs(cells: Sequence[Cell], contrast: Contrast) -> dict[str, dict[Any, float]]:
    """Return task -> replicate -> its paired change, for `statistics.tasks.within_tasks`."""
    return {cell.column: dict(cell.by_replicate(contrast)) for cell in cells}


def _facts(cells: Sequence[Cell], contrast: Contrast) -> dict[str, Any]:
    """Return the runs that are counted, and a note on those that are missing."""
    measured = [(cell, term, cell.sides[term.condition]) for cell in cells for term in contrast.terms]
    notes = [
        f"{cell.column}: {reason}" if cell.column else reason
        for cell, term, side in measured
        if (reason := side.reason(term.quantity))
    ]
    ids = (side.runs[replicate].id for _, term, side in measured for replicate in side.measured(term.quantity))
    every = {replicate: None for _, _, side in measured for replicate in side.runs}
    return {
        "run_ids": tuple(dict.fromkeys(ids)),
        "note": "; ".join(dict.fromkeys(notes)),
        "about": these_builds(every) if every else "",
    }


def check_units(units: Units, grid: Estimates) -> None:
    """Raise SpecError if `runs` are units and start from several builds: runs of one build are not independent."""
    sides = [side for cell in grid.cells.values() for side in cell.sides.values()]
    builds = {replicate.build for side in sides for replicate in side.runs}
    if units == "runs" and len(builds) > 1:
        raise SpecError(
            "units: runs does not know several builds of the base model, whose runs are not independent",
            fix="choose one build, or compare `units: pairs`",
        )
