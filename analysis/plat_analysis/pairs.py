"""The numbers of one paired cell: peak validation success of a baseline condition, what the treatment changes, and both
again on the held-out instances. In percent. Used by the table, the figure and the claims.

Pairs are runs of equal row, column and seed. One pair: the interval is over instances. Several: over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plat_analysis.results import Results, RunView, seed_order
from plat_analysis.scores import Score, base_score, heldout_score, peak_score
from plat_analysis.statistics import (
    Estimate,
    bootstrap_mean,
    combine_mean,
    newcombe_paired,
    newcombe_unpaired,
    over_seeds,
    wilson,
)

PERCENT = 100.0

# quantity -> (subtracted, measured); each is (condition, score)
QUANTITIES: dict[str, tuple[tuple[str, str] | None, tuple[str, str]]] = {
    "peak": (None, ("baseline", "peak")),
    "peak_treated": (None, ("treatment", "peak")),
    "delta": (("baseline", "peak"), ("treatment", "peak")),
    "heldout": (None, ("baseline", "heldout")),
    "heldout_treated": (None, ("treatment", "heldout")),
    "heldout_delta": (("baseline", "heldout"), ("treatment", "heldout")),
    "base": (None, ("baseline", "base")),
    "base_treated": (None, ("treatment", "base")),
    "learned": (("baseline", "base"), ("baseline", "heldout")),
    "learned_treated": (("treatment", "base"), ("treatment", "heldout")),
}


@dataclass(frozen=True)
class Side:
    """One condition of a cell: every wanted run by seed, and the scores (by name, then seed) of those that count."""

    runs: Mapping[Any, RunView]
    scores: Mapping[str, Mapping[Any, Score]]

    @classmethod
    def of(cls, results: Results, runs: Mapping[Any, RunView]) -> Side:
        runs = {seed: runs[seed] for seed in sorted(runs, key=seed_order)}
        scores: dict[str, dict[Any, Score]] = {}
        for name, find in (("peak", peak_score), ("heldout", heldout_score), ("base", base_score)):
            found = {seed: find(results, run) for seed, run in runs.items() if not run.missing}
            scores[name] = {seed: score for seed, score in found.items() if score is not None}
        return cls(runs, scores)

    def reason(self, name: str) -> str:
        """Why a score is not there for every seed: `not run`, `seed 3: failed:oom`, or "" when it is."""
        if not self.runs:
            return "not in the matrix"
        absent = {s: run.missing or "not evaluated" for s, run in self.runs.items() if s not in self.scores[name]}
        if len(absent) == len(self.runs) and len(set(absent.values())) == 1:
            return next(iter(absent.values()))
        return ", ".join(f"seed {seed}: {why}" for seed, why in absent.items())


@dataclass
class PairedCell:
    """One (row, column). `cell["delta"]` is the Estimate of a quantity of QUANTITIES, `by_seed` its parts."""

    row: str
    column: str
    baseline: Side
    treatment: Side
    _cache: dict[str, Estimate] = field(default_factory=dict, repr=False)

    @property
    def wanted(self) -> bool:
        """Whether the matrix has any run for this cell."""
        return bool(self.baseline.runs or self.treatment.runs)

    def __getitem__(self, quantity: str) -> Estimate:
        if quantity not in self._cache:
            self._cache[quantity] = self._estimate(quantity).scaled(PERCENT)
        return self._cache[quantity]

    def pairs(self, quantity: str) -> dict[Any, tuple[Score | None, Score]]:
        """Seed -> (subtracted, measured), for the seeds that have all that is needed."""
        before, after = QUANTITIES[quantity]
        measured = self._scores(after)
        if before is None:
            return {seed: (None, score) for seed, score in measured.items()}
        subtracted = self._scores(before)
        return {seed: (subtracted[seed], score) for seed, score in measured.items() if seed in subtracted}

    def by_seed(self, quantity: str) -> dict[Any, float]:
        """Seed -> value in percent."""
        pairs = self.pairs(quantity).items()
        return {seed: PERCENT * (after.value - (before.value if before else 0.0)) for seed, (before, after) in pairs}

    def _scores(self, which: tuple[str, str]) -> Mapping[Any, Score]:
        return getattr(self, which[0]).scores[which[1]]

    def _estimate(self, quantity: str) -> Estimate:
        needed = [part for part in QUANTITIES[quantity] if part is not None]
        sides = {condition: getattr(self, condition) for condition, _ in needed}
        pairs = self.pairs(quantity)
        facts: dict[str, Any] = {
            "wanted": len(set().union(*(side.runs for side in sides.values()))),
            "run_ids": tuple(side.runs[seed].id for side in sides.values() for seed in pairs),
            "note": "; ".join(_reasons(needed, sides)),
        }
        if len(pairs) == 1:
            return _one_seed(*next(iter(pairs.values())), facts)
        return over_seeds(
            [after.value - (before.value if before else 0.0) for before, after in pairs.values()], **facts
        )


def _reasons(needed: Sequence[tuple[str, str]], sides: Mapping[str, Side]) -> list[str]:
    return list(dict.fromkeys(why for condition, name in needed if (why := sides[condition].reason(name))))


def _one_seed(before: Score | None, after: Score, facts: dict[str, Any]) -> Estimate:
    """One seed: the interval is over instances, paired where the store has them one by one."""
    if before is None:
        if not after.count:
            return Estimate(after.value, seeds=1, **facts)
        low, high = wilson(after.value * after.count, after.count)
        return Estimate(after.value, float(low), float(high), "instances", 1, **facts)
    value, x, y = after.value - before.value, before.instances, after.instances
    if x is not None and y is not None and x.shape == y.shape:
        binary = bool(np.isin(x, (0, 1)).all() and np.isin(y, (0, 1)).all())
        bounds = newcombe_paired(x, y) if binary else bootstrap_mean(y - x, seed=0)[1:]
        return Estimate(value, *bounds, "instances", 1, **facts)
    if before.count and after.count:
        bounds = newcombe_unpaired(before.value, before.count, after.value, after.count)
        facts["note"] = "; ".join(filter(None, [facts["note"], "not paired: only the mean over instances is known"]))
        return Estimate(value, *bounds, "instances", 1, **facts)
    return Estimate(value, seeds=1, **facts)


def average(cells: Sequence[PairedCell], quantity: str) -> Estimate:
    """Mean of a quantity over cells with equal weight. Blank unless every cell has it: never over survivors.

    One seed: the cells' intervals over instances combined. Several: each seed's mean over the cells, then over seeds.
    """
    parts = [cell[quantity] for cell in cells]
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
        seeds = [cell.by_seed(quantity) for cell in cells]
        common = [seed for seed in seeds[0] if all(seed in values for values in seeds)]
        if not common:
            return Estimate(wanted=wanted, note="; ".join(["no seed has every column", *notes]))
        return over_seeds([float(np.mean([values[seed] for values in seeds])) for seed in common], **facts)
    bounds = [(part.value, part.low, part.high) for part in parts if part.value is not None]
    if any(low is None for _, low, _ in bounds):
        return Estimate(float(np.mean([value for value, _, _ in bounds])), seeds=1, **facts)
    return Estimate(*combine_mean(bounds), "instances", 1, **facts)  # type: ignore[arg-type]
