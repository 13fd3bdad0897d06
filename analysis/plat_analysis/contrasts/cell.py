"""Estimate the level of a quantity in a condition, or a difference, in each row and column and on average over columns.

Differences are paired: runs of equal row, column, seed and build of the base model. The interval of one pair is over
the instances of an evaluation, from three pairs on over seeds or builds (see `statistics.replicates`); two have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from plat_analysis.data.published import AVERAGE
from plat_analysis.data.results import Results, RunView, replicate_order
from plat_analysis.facets import Facets, Runs
from plat_analysis.quantities.quantity import SUCCESSES, Absent, Measurement, Quantity
from plat_analysis.statistics.intervals import (
    TINY,
    Estimate,
    bootstrap_mean,
    combine_mean,
    newcombe_paired,
    newcombe_unpaired,
    wilson,
)
from plat_analysis.statistics.replicates import Builds, Replicate, over_replicates
from plat_analysis.statistics.significance import starred

# Define what is estimated: a quantity of one condition, or its difference from another condition or quantity.
#
# Contrast(Term("top_p", peak), minus=Term("none", peak))        Top-p's change at the peak
# Contrast(Term("none", heldout), minus=Term("none", base))      what training without a filter taught
# Contrast(Term("none", peak))                                   a level


class Term(NamedTuple):
    """Name a quantity of the runs of one condition."""

    condition: str
    quantity: Quantity


@dataclass(frozen=True)
class Contrast:
    """Hold a term, or a term minus another, paired by build and seed."""

    of: Term
    minus: Term | None = None

    @property
    def terms(self) -> tuple[Term, ...]:
        """Return the subtracted term, if any, then the main term."""
        return (self.of,) if self.minus is None else (self.minus, self.of)

    @property
    def seedless(self) -> bool:
        """Return True if no term depends on the run's seed (see `Quantity.seedless`)."""
        return all(term.quantity.seedless for term in self.terms)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the limits of intervals: the quantity's bounds for a level, None for a difference."""
        return self.of.quantity.bounds if self.minus is None else None


def change(quantity: Quantity, baseline: str, treatment: str) -> Contrast:
    """Return the change of a quantity from baseline to treatment."""
    return Contrast(Term(treatment, quantity), Term(baseline, quantity))


def success_contrasts(baseline: str, treatment: str) -> Mapping[str, Contrast]:
    """Return name -> contrast, for success in two conditions.

    `peak`, `heldout`, `final` and `base` are levels of the baseline, and `peak_treated` etc. of the treatment. `delta`
    (of the peak), `heldout_delta` and `final_delta` are changes. `learned` and `learned_treated`: held-out minus base.
    """
    peak, heldout, final, base = (SUCCESSES[name] for name in ("peak", "heldout", "final", "base"))
    contrasts: dict[str, Contrast] = {}
    for name, quantity in (("peak", peak), ("heldout", heldout), ("final", final)):
        contrasts[name] = Contrast(Term(baseline, quantity))
        contrasts[f"{name}_treated"] = Contrast(Term(treatment, quantity))
        contrasts["delta" if quantity is peak else f"{name}_delta"] = change(quantity, baseline, treatment)
    return contrasts | {
        "base": Contrast(Term(baseline, base)),
        "base_treated": Contrast(Term(treatment, base)),
        "learned": Contrast(Term(baseline, heldout), Term(baseline, base)),
        "learned_treated": Contrast(Term(treatment, heldout), Term(treatment, base)),
    }


UNIFORM = 12**-0.5  # standard deviation of a rounding error, in steps of the grid
Pair = tuple[Measurement | None, Measurement]


class Side:
    """Hold all `runs` that the matrix has in one place, by replicate, and measure them once."""

    def __init__(self, results: Results, runs: Runs) -> None:
        self.results = results
        self.runs: Runs = {replicate: runs[replicate] for replicate in sorted(runs, key=replicate_order)}
        self._all: dict[Quantity, dict[Replicate, Measurement | Absent]] = {}

    def measured(self, quantity: Quantity) -> Mapping[Replicate, Measurement]:
        """Return replicate -> measurement, in the unit recorded, of the runs that have one."""
        return {r: value for r, value in self._measure(quantity).items() if isinstance(value, Measurement)}

    def absent(self, quantity: Quantity) -> Mapping[Replicate, str]:
        """Return replicate -> reason, e.g. `failed:oom`, for the replicates without a value."""
        return {r: value.why for r, value in self._measure(quantity).items() if isinstance(value, Absent)}

    def reason(self, quantity: Quantity) -> str:
        """Return why values are missing: `not run`, `seed 3: failed:oom`, `not in the matrix`; "" if none is."""
        if not self.runs:
            return "not in the matrix"
        absent = self.absent(quantity)
        if len(absent) == len(self.runs) and len(set(absent.values())) == 1:
            return next(iter(absent.values()))
        many_builds = len({replicate.build for replicate in self.runs}) > 1
        names = {replicate: str(replicate if many_builds else Replicate(None, replicate.seed)) for replicate in absent}
        return ", ".join(f"{names[replicate]}: {why}" for replicate, why in absent.items())

    def _measure(self, quantity: Quantity) -> dict[Replicate, Measurement | Absent]:
        if quantity not in self._all:
            self._all[quantity] = {r: quantity.measure(self.results, run) for r, run in self.runs.items()}
        return self._all[quantity]


@dataclass
class Cell:
    """Hold one (row, column) with the runs of its conditions. All but `pairs` gives values in the unit shown."""

    row: str
    column: str
    sides: Mapping[str, Side]
    builds: Builds = "random"
    _cache: dict[Contrast, Estimate] = field(default_factory=dict, repr=False)

    @property
    def wanted(self) -> bool:
        """Return True if the matrix has any run for this cell."""
        return any(side.runs for side in self.sides.values())

    def estimate(self, contrast: Contrast) -> Estimate:
        """Return the mean of a contrast over the runs, with its interval."""
        if contrast not in self._cache:
            self._cache[contrast] = self._estimate(contrast)
        return self._cache[contrast]

    def pairs(self, contrast: Contrast) -> dict[Replicate, Pair]:
        """Return replicate -> (subtracted or None, measured), as recorded, of the replicates that have all terms."""
        measured = self._measured(contrast.of)
        if contrast.minus is None:
            return {replicate: (None, value) for replicate, value in measured.items()}
        subtracted = self._measured(contrast.minus)
        return {r: (subtracted[r], value) for r, value in measured.items() if r in subtracted}

    def by_replicate(self, contrast: Contrast) -> dict[Replicate, float]:
        """Return replicate -> value of the contrast, of the replicates that have all its terms."""
        factor = contrast.of.quantity.factor
        pairs = self.pairs(contrast).items()
        return {r: factor * (after.value - (before.value if before else 0.0)) for r, (before, after) in pairs}

    def rounding(self, contrast: Contrast) -> float:
        """Return the standard deviation of the rounding of one value to steps of 1/instances; 0 without steps."""
        counts = [[value.count for value in pair if value and value.count] for pair in self.pairs(contrast).values()]
        variances = [sum((UNIFORM / count) ** 2 for count in pair) for pair in counts]
        return contrast.of.quantity.factor * float(np.sqrt(max(variances, default=0.0)))

    def _measured(self, term: Term) -> Mapping[Replicate, Measurement]:
        return self.sides[term.condition].measured(term.quantity)

    def _estimate(self, contrast: Contrast) -> Estimate:
        sides = {term.condition: self.sides[term.condition] for term in contrast.terms}
        pairs = self.pairs(contrast)
        reasons = (self.sides[term.condition].reason(term.quantity) for term in contrast.terms)
        asks = asks_of(list(sides.values()))
        is_decided = any(side.results.experiment.decide is not None for side in sides.values())
        facts: dict[str, Any] = {
            "wanted": len(asks if asks and is_decided else set().union(*(side.runs for side in sides.values()))),
            "asks": asks,
            "run_ids": tuple(side.runs[replicate].id for side in sides.values() for replicate in pairs),
            "note": "; ".join(dict.fromkeys(filter(None, reasons))),
        }
        if len(pairs) == 1 and all(value.count for pair in pairs.values() for value in pair if value):
            return _one_run(*next(iter(pairs.values())), facts).scaled(contrast.of.quantity.factor)
        values, rounding = self.by_replicate(contrast), self.rounding(contrast)
        estimate = over_replicates(values, rounding, contrast.seedless, self.builds, **facts)
        if contrast.minus is None and not rounding and _without_spread(estimate):  # equal values show no spread
            return replace(estimate, low=None, high=None, over="")
        return _bounded(estimate, contrast)


def _without_spread(estimate: Estimate) -> bool:
    """Return True if all values are equal, up to the rounding of their mean."""
    return estimate.deviation is not None and estimate.deviation <= TINY * abs(estimate.value or 0.0)


def _bounded(estimate: Estimate, contrast: Contrast) -> Estimate:
    """Clip the interval to the bounds of the contrast."""
    if contrast.bounds is None or estimate.low is None or estimate.high is None:
        return estimate
    low, high = contrast.bounds
    return replace(estimate, low=max(estimate.low, low), high=min(estimate.high, high))


def _one_run(before: Measurement | None, after: Measurement, facts: dict[str, Any]) -> Estimate:
    """Estimate one run or pair with an interval over instances, paired where single instances are stored."""
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


def _of_column(cell: Cell, note: str) -> str:
    return f"{cell.column}: {note}" if cell.column else note


def average(cells: Sequence[Cell], contrast: Contrast) -> Estimate:
    """Return the mean of a contrast over cells with equal weight; without a value unless every cell has one.

    If no cell is planned with more than one replicate, the cells' intervals over instances are combined. Otherwise the
    contrast is averaged over the cells in each replicate that all cells have, and then over these replicates.
    """
    parts = [cell.estimate(contrast) for cell in cells]
    wanted = max((part.wanted for part in parts), default=0)
    absent = [_of_column(cell, part.note) for cell, part in zip(cells, parts, strict=True) if part.value is None]
    if absent or not parts:
        have = len(parts) - len(absent)
        counted = [f"{have} of {len(parts)} columns"] if len(parts) != 1 else []
        return Estimate(wanted=wanted, note="; ".join([*counted, *absent]), asks=merged_asks(parts))
    notes = [_of_column(cell, part.note) for cell, part in zip(cells, parts, strict=True) if part.note]
    facts: dict[str, Any] = {
        "wanted": wanted,
        "run_ids": tuple(dict.fromkeys(run for part in parts for run in part.run_ids)),
        "note": "; ".join(notes),
    }
    facts["asks"] = merged_asks(parts)
    if wanted > 1:
        means = common_means([cell.by_replicate(contrast) for cell in cells])
        if not means:
            return Estimate(wanted=wanted, note="; ".join(["no seed has every column", *notes]), asks=facts["asks"])
        rounding, builds = mean_rounding(cells, contrast), cells[0].builds
        return _bounded(over_replicates(means, rounding, contrast.seedless, builds, **facts), contrast)
    bounds = [(part.value, part.low, part.high) for part in parts if part.value is not None]
    if any(low is None for _, low, _ in bounds):
        return Estimate(float(np.mean([value for value, _, _ in bounds])), seeds=1, **facts)
    return Estimate(*combine_mean(bounds), "instances", 1, **facts)  # type: ignore[arg-type]


def asks_of(sides: Sequence[Side]) -> dict[Replicate, tuple[str, ...]]:
    """Return replicate -> the ids of its runs, of the replicates that all sides have in the matrix."""
    return {r: tuple(side.runs[r].id for side in sides) for r in in_all([side.runs for side in sides])}


def merged_asks(parts: Sequence[Estimate]) -> dict[Replicate, tuple[str, ...]]:
    """Return replicate -> the ids of the runs that all parts need, of the replicates that all parts have."""
    asks = [part.asks for part in parts]
    return {r: tuple(dict.fromkeys(run for one in asks for run in one[r])) for r in in_all(asks)}


def common_means(columns: Sequence[Mapping[Replicate, float]]) -> dict[Replicate, float]:
    """Return the mean over the columns for each replicate that all of them have."""
    return {r: float(np.mean([column[r] for column in columns])) for r in in_all(columns)}


def in_all(columns: Sequence[Mapping[Replicate, Any]]) -> list[Replicate]:
    """Return the replicates that all columns have, in the order of the first column."""
    return [replicate for replicate in columns[0] if all(replicate in column for column in columns)] if columns else []


def mean_rounding(cells: Sequence[Cell], contrast: Contrast) -> float:
    """Return the standard deviation that rounding alone gives to the mean of a contrast over cells."""
    return float(np.sqrt(sum(cell.rounding(contrast) ** 2 for cell in cells))) / len(cells)


class Estimates:
    """Hold `cells[row, column]` for every row and column; `average` is over the columns.

    conditions  those that cells have, with or without runs (default: all of the layout)
    builds      intervals are about these builds of the base model (fixed), or about such builds (random)
    """

    def __init__(self, facets: Facets, conditions: tuple[str, ...] = (), builds: Builds = "random") -> None:
        self.facets, self.results, self.layout = facets, facets.results, facets.layout
        self.rows, self.columns = facets.rows, facets.columns
        names = conditions or tuple(facets.conditions)
        self.cells = {
            (row, column): Cell(
                row, column, {name: Side(facets.results, facets.runs(row, column, name)) for name in names}, builds
            )
            for row in self.rows
            for column in self.columns
        }

    @property
    def averaged(self) -> list[str]:
        """Return the names of the columns, followed by AVERAGE if there are several."""
        return [*self.columns, *([AVERAGE] if len(self.columns) > 1 else [])]

    def estimate(self, row: str, column: str, contrast: Contrast) -> Estimate:
        """Return a contrast in one cell, or on average over the columns."""
        return self.average(row, contrast) if column == AVERAGE else self.cells[row, column].estimate(contrast)

    def starred(self, contrast: Contrast) -> dict[tuple[str, str], Estimate]:
        """Return (row, column) -> Estimate with its star; all cells, averages included, are one family."""
        return starred(
            [{(row, column): self.estimate(row, column, contrast) for row in self.rows} for column in self.averaged]
        )

    def row(self, row: str) -> list[Cell]:
        """Return the cells of a row for which the matrix has runs."""
        return [self.cells[row, column] for column in self.columns if self.cells[row, column].wanted]

    def average(self, row: str, contrast: Contrast) -> Estimate:
        """Return the mean of a contrast over the columns for which the row has planned runs, with equal weights."""
        return average(self.row(row), contrast)

    def runs(self, row: str) -> list[RunView]:
        """Return every wanted run of a row."""
        return [run for cell in self.row(row) for side in cell.sides.values() for run in side.runs.values()]
