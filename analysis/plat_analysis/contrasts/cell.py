"""The estimates of one row and column: the level of a quantity in a condition, or a difference, over its runs.

Differences are paired: of runs of equal row, column, seed and build of the base model. One pair: the interval is over
the instances of an evaluation. Three and more: over seeds or builds (see `replicates`). Two: none. `builds` says
whether that is about these builds or about such builds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from plat_analysis.contrasts.contrast import Contrast, Term
from plat_analysis.contrasts.side import Side
from plat_analysis.quantities.quantity import Measurement
from plat_analysis.statistics.intervals import (
    Estimate,
    bootstrap_mean,
    combine_mean,
    newcombe_paired,
    newcombe_unpaired,
    wilson,
)
from plat_analysis.statistics.replicates import Builds, Replicate, over_replicates

UNIFORM = 12**-0.5  # standard deviation of a rounding error, in steps of the grid
Pair = tuple[Measurement | None, Measurement]


@dataclass
class Cell:
    """One (row, column) with the runs of its conditions. Values are in the unit in which their quantity is shown."""

    row: str
    column: str
    sides: Mapping[str, Side]
    builds: Builds = "random"
    _cache: dict[Contrast, Estimate] = field(default_factory=dict, repr=False)

    @property
    def wanted(self) -> bool:
        """Whether the matrix has any run for this cell."""
        return any(side.runs for side in self.sides.values())

    def estimate(self, contrast: Contrast) -> Estimate:
        """The mean of a contrast over the runs, with its interval."""
        if contrast not in self._cache:
            self._cache[contrast] = self._estimate(contrast)
        return self._cache[contrast]

    def pairs(self, contrast: Contrast) -> dict[Replicate, Pair]:
        """Replicate -> (subtracted, measured), for those that have all that is needed."""
        measured = self._measured(contrast.of)
        if contrast.minus is None:
            return {replicate: (None, value) for replicate, value in measured.items()}
        subtracted = self._measured(contrast.minus)
        return {r: (subtracted[r], value) for r, value in measured.items() if r in subtracted}

    def by_replicate(self, contrast: Contrast) -> dict[Replicate, float]:
        """Replicate -> value."""
        factor = contrast.of.quantity.factor
        pairs = self.pairs(contrast).items()
        return {r: factor * (after.value - (before.value if before else 0.0)) for r, (before, after) in pairs}

    def rounding(self, contrast: Contrast) -> float:
        """Standard deviation of the rounding of one value: success is counted in steps of 1/instances."""
        counts = [[value.count for value in pair if value and value.count] for pair in self.pairs(contrast).values()]
        variances = [sum((UNIFORM / count) ** 2 for count in pair) for pair in counts]
        return contrast.of.quantity.factor * float(np.sqrt(max(variances, default=0.0)))

    def _measured(self, term: Term) -> Mapping[Replicate, Measurement]:
        return self.sides[term.condition].measured(term.quantity)

    def _estimate(self, contrast: Contrast) -> Estimate:
        sides = {term.condition: self.sides[term.condition] for term in contrast.terms}
        pairs = self.pairs(contrast)
        reasons = (self.sides[term.condition].reason(term.quantity) for term in contrast.terms)
        facts: dict[str, Any] = {
            "wanted": len(set().union(*(side.runs for side in sides.values()))),
            "run_ids": tuple(side.runs[replicate].id for side in sides.values() for replicate in pairs),
            "note": "; ".join(dict.fromkeys(filter(None, reasons))),
        }
        if len(pairs) == 1 and all(value.count for pair in pairs.values() for value in pair if value):
            return _one_run(*next(iter(pairs.values())), facts).scaled(contrast.of.quantity.factor)
        values, rounding = self.by_replicate(contrast), self.rounding(contrast)
        seedless = all(term.quantity.seedless for term in contrast.terms)
        estimate = over_replicates(values, rounding, seedless, self.builds, **facts)
        if contrast.minus is None and not rounding and estimate.deviation == 0:  # equal values show nothing of a spread
            return replace(estimate, low=None, high=None, over="")
        return _bounded(estimate, contrast)


def _bounded(estimate: Estimate, contrast: Contrast) -> Estimate:
    """The estimate with an interval that ends where its values end."""
    if contrast.bounds is None or estimate.low is None or estimate.high is None:
        return estimate
    low, high = contrast.bounds
    return replace(estimate, low=max(estimate.low, low), high=min(estimate.high, high))


def _one_run(before: Measurement | None, after: Measurement, facts: dict[str, Any]) -> Estimate:
    """One run or pair: the interval is over instances, paired where the store has them one by one."""
    if before is None:
        low, high = wilson(after.value * after.count, after.count)
        return Estimate(after.value, float(low), float(high), "instances", 1, **facts)
    value, x, y = after.value - before.value, before.instances, after.instances
    if x is not None and y is not None and x.shape == y.shape:
        binary = bool(np.isin(x, (0, 1)).all() and np.isin(y, (0, 1)).all())
        bounds = newcombe_paired(x, y) if binary else bootstrap_mean(y - x, seed=0)[1:]
        return Estimate(value, *bounds, "instances", 1, **facts)
    bounds = newcombe_unpaired(before.value, before.count, after.value, after.count)
    facts["note"] = "; ".join(filter(None, [facts["note"], "not paired: only the mean over instances is known"]))
    return Estimate(value, *bounds, "instances", 1, **facts)


def average(cells: Sequence[Cell], contrast: Contrast) -> Estimate:
    """Mean of a contrast over cells with equal weight. Blank unless every cell has it: never over survivors.

    One run each: the cells' intervals over instances combined. Several: the mean over the cells of each replicate, then
    over replicates.
    """
    parts = [cell.estimate(contrast) for cell in cells]
    wanted = max((part.wanted for part in parts), default=0)
    absent = [f"{cell.column}: {part.note}" for cell, part in zip(cells, parts, strict=True) if part.value is None]
    if absent or not parts:
        have = len(parts) - len(absent)
        return Estimate(wanted=wanted, note=f"{have} of {len(parts)} columns; " + "; ".join(absent))
    notes = [f"{cell.column}: {part.note}" for cell, part in zip(cells, parts, strict=True) if part.note]
    facts: dict[str, Any] = {
        "wanted": wanted,
        "run_ids": tuple(dict.fromkeys(run for part in parts for run in part.run_ids)),
        "note": "; ".join(notes),
    }
    if wanted > 1:
        means = common_means([cell.by_replicate(contrast) for cell in cells])
        if not means:
            return Estimate(wanted=wanted, note="; ".join(["no seed has every column", *notes]))
        return _bounded(
            over_replicates(means, mean_rounding(cells, contrast), builds=cells[0].builds, **facts), contrast
        )
    bounds = [(part.value, part.low, part.high) for part in parts if part.value is not None]
    if any(low is None for _, low, _ in bounds):
        return Estimate(float(np.mean([value for value, _, _ in bounds])), seeds=1, **facts)
    return Estimate(*combine_mean(bounds), "instances", 1, **facts)  # type: ignore[arg-type]


def common_means(columns: Sequence[Mapping[Replicate, float]]) -> dict[Replicate, float]:
    """The mean over the columns for each replicate that all of them have."""
    if not columns:
        return {}
    common = [replicate for replicate in columns[0] if all(replicate in column for column in columns)]
    return {replicate: float(np.mean([column[replicate] for column in columns])) for replicate in common}


def mean_rounding(cells: Sequence[Cell], contrast: Contrast) -> float:
    """Standard deviation of the rounding of the mean of a contrast over cells."""
    return float(np.sqrt(sum(cell.rounding(contrast) ** 2 for cell in cells))) / len(cells)
