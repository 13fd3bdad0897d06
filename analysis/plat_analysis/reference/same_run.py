"""Compare runs that are in both the report and its reference, but were computed on different machines.

Each is compared with the reference's run of the same id, and with those of the same build and another seed. Where
results are portable, it is near the former: both deviate alike from the mean of other seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plat_analysis.contrasts.cell import Cell
from plat_analysis.quantities.success import SUCCESSES

MIN_SAME = 3  # least runs for a correlation
MIN_OTHERS = 2  # least other seeds: one to compare with, and the others to deviate from


@dataclass(frozen=True)
class SameRuns:
    """Hold peaks in percent, one entry for each run of all cells and both conditions.

    own     [run] as computed here
    again   [run] the reference's run of the same id
    others  [run, seed] the reference's runs of the same build and other seeds
    """

    own: list[float]
    again: list[float]
    others: list[list[float]]

    def values(self) -> dict[str, float]:
        """Return correlations of deviations from the mean of other seeds, and mean absolute differences in points.

        The keys are `same_runs` and `same_run_equal` (counts), and `same_run_` and `other_seed_` with `difference` and
        `correlation`. Return {} for fewer than `MIN_SAME` runs, or if a run has fewer than `MIN_OTHERS` other seeds. A
        correlation is left out if deviations do not vary.
        """
        if len(self.own) < MIN_SAME or min(map(len, self.others)) < MIN_OTHERS:
            return {}
        own, again = np.array(self.own), np.array(self.again)
        means = np.array([np.mean(line) for line in self.others])
        to_seeds = [
            (x, y, np.mean(line[:index] + line[index + 1 :]))
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
    """Return the runs of (cell, its reference) pairs that both have, by run id, with a peak."""
    found, peak = SameRuns([], [], []), SUCCESSES["peak"]
    for own, earlier in ((side, beside.sides[name]) for cell, beside in cells for name, side in cell.sides.items()):
        ours, theirs = own.measured(peak), earlier.measured(peak)
        for replicate, score in ours.items():
            again = earlier.runs.get(replicate)
            if again is None or again.id != own.runs[replicate].id or replicate not in theirs:
                continue
            others = [s.value for r, s in theirs.items() if r.build == replicate.build and r.seed != replicate.seed]
            found.own.append(peak.factor * score.value)
            found.again.append(peak.factor * theirs[replicate].value)
            found.others.append([peak.factor * value for value in others])
    return found


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    if first.std() == 0 or second.std() == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])
