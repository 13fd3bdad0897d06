"""How far results travel: runs of a report that are in its reference too, but were computed elsewhere.

Each is compared with the reference's run of the same id, and with those of the same build of the base model and another
seed. Where results travel, it is near the former: both deviate alike from what other seeds come to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plat_analysis.contrasts.cell import Cell
from plat_analysis.contrasts.side import Side
from plat_analysis.quantities.success import SUCCESSES

MIN_SAME = 3  # fewer have no correlation worth a name
MIN_OTHERS = 2  # seeds besides it: one to compare with, and the others to deviate from


@dataclass(frozen=True)
class SameRuns:
    """Peaks in percent, of all cells and both conditions, a line each.

    own     [run] as computed here
    again   [run] the reference's run of the same id
    others  [run, seed] the reference's runs of the same build and other seeds
    """

    own: list[float]
    again: list[float]
    others: list[list[float]]

    def values(self) -> dict[str, float]:
        """Correlations of deviations from the mean of other seeds, and mean absolute differences in points; empty for
        fewer than MIN_SAME runs, or where deviations do not vary."""
        if len(self.own) < MIN_SAME or min(map(len, self.others)) < MIN_OTHERS:
            return {}
        own, again = np.array(self.own), np.array(self.again)
        means = np.array([np.mean(line) for line in self.others])
        to_seeds = [
            (x, y, np.mean(_without(line, index)))
            for x, line in zip(own, self.others, strict=True)
            for index, y in enumerate(line)
        ]
        mine, other, level = np.array(to_seeds).T
        values = {
            "same_runs": float(len(own)),
            "same_run_equal": float((own == again).sum()),
            "same_run_difference": float(np.abs(own - again).mean()),
            "same_run_correlation": _correlation(own - means, again - means),
            "other_seed_difference": float(np.abs(mine - other).mean()),
            "other_seed_correlation": _correlation(mine - level, other - level),
        }
        return {name: value for name, value in values.items() if np.isfinite(value)}


def same_runs(cells: list[tuple[Cell, Cell]]) -> SameRuns:
    """The runs of cells that are in the cells of the reference beside them, too."""
    found = SameRuns([], [], [])
    for cell, beside in cells:
        for condition, own in cell.sides.items():
            _add(found, own, beside.sides[condition])
    return found


def _add(found: SameRuns, own: Side, earlier: Side) -> None:
    peak = SUCCESSES["peak"]
    ours, theirs = own.measured(peak), earlier.measured(peak)
    for replicate, score in ours.items():
        again = earlier.runs.get(replicate)
        if again is None or again.id != own.runs[replicate].id or replicate not in theirs:
            continue
        others = [s.value for r, s in theirs.items() if r.build == replicate.build and r.seed != replicate.seed]
        found.own.append(peak.factor * score.value)
        found.again.append(peak.factor * theirs[replicate].value)
        found.others.append([peak.factor * value for value in others])


def _without(values: list[float], index: int) -> list[float]:
    return values[:index] + values[index + 1 :]


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    if first.std() == 0 or second.std() == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])
