"""The numbers of one paired cell: success of a baseline condition, what the treatment changes, and both again on the
held-out instances. In percent. Used by the table, the figure and the claims.

Pairs are runs of equal row, column, seed and build of the base model. One pair: the interval is over instances. Three
and more: over seeds or builds (see `replicates`). Two: none. `builds` says whether that is about these builds or about
such builds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from plat_analysis.results.runs import Results, RunView, replicate_order
from plat_analysis.results.scores import SCORES, Score
from plat_analysis.statistics.intervals import (
    Estimate,
    bootstrap_mean,
    combine_mean,
    newcombe_paired,
    newcombe_unpaired,
    wilson,
)
from plat_analysis.statistics.replicates import Builds, Replicate, over_replicates

PERCENT = 100.0
UNIFORM = 12**-0.5  # standard deviation of a rounding error, in steps of the grid

# quantity -> (subtracted, measured); each is (condition, score)
QUANTITIES: dict[str, tuple[tuple[str, str] | None, tuple[str, str]]] = {
    "peak": (None, ("baseline", "peak")),
    "peak_treated": (None, ("treatment", "peak")),
    "delta": (("baseline", "peak"), ("treatment", "peak")),
    "heldout": (None, ("baseline", "heldout")),
    "heldout_treated": (None, ("treatment", "heldout")),
    "heldout_delta": (("baseline", "heldout"), ("treatment", "heldout")),
    "final": (None, ("baseline", "final")),
    "final_treated": (None, ("treatment", "final")),
    "final_delta": (("baseline", "final"), ("treatment", "final")),
    "base": (None, ("baseline", "base")),
    "base_treated": (None, ("treatment", "base")),
    "learned": (("baseline", "base"), ("baseline", "heldout")),
    "learned_treated": (("treatment", "base"), ("treatment", "heldout")),
}


@dataclass(frozen=True)
class Side:
    """One condition of a cell: every wanted run, and the scores (by name) of those that count."""

    runs: Mapping[Replicate, RunView]
    scores: Mapping[str, Mapping[Replicate, Score]]

    @classmethod
    def of(cls, results: Results, runs: Mapping[Replicate, RunView]) -> Side:
        """The runs of one condition, with each of SCORES for those that have it."""
        runs = {replicate: runs[replicate] for replicate in sorted(runs, key=replicate_order)}
        scores: dict[str, dict[Replicate, Score]] = {}
        for name, score_of in SCORES.items():
            known = {replicate: score_of(results, run) for replicate, run in runs.items() if not run.missing}
            scores[name] = {replicate: score for replicate, score in known.items() if score is not None}
        return cls(runs, scores)

    def reason(self, name: str) -> str:
        """Why a score is missing for some runs, such as `not run` or `seed 3: failed:oom`; "" when none is missing."""
        if not self.runs:
            return "not in the matrix"
        absent = {r: run.missing or "not evaluated" for r, run in self.runs.items() if r not in self.scores[name]}
        if len(absent) == len(self.runs) and len(set(absent.values())) == 1:
            return next(iter(absent.values()))
        many_builds = len({replicate.build for replicate in self.runs}) > 1
        names = {replicate: str(replicate if many_builds else Replicate(None, replicate.seed)) for replicate in absent}
        return ", ".join(f"{names[replicate]}: {why}" for replicate, why in absent.items())


@dataclass
class PairedCell:
    """One (row, column). `cell["delta"]` is the Estimate of a quantity of QUANTITIES; `by_replicate` its parts."""

    row: str
    column: str
    baseline: Side
    treatment: Side
    builds: Builds = "random"
    _cache: dict[str, Estimate] = field(default_factory=dict, repr=False)

    @property
    def wanted(self) -> bool:
        """Whether the matrix has any run for this cell."""
        return bool(self.baseline.runs or self.treatment.runs)

    def __getitem__(self, quantity: str) -> Estimate:
        if quantity not in self._cache:
            self._cache[quantity] = self._estimate(quantity)
        return self._cache[quantity]

    def pairs(self, quantity: str) -> dict[Replicate, tuple[Score | None, Score]]:
        """Replicate -> (subtracted, measured), for those that have all that is needed."""
        before, after = QUANTITIES[quantity]
        measured = self._scores(after)
        if before is None:
            return {replicate: (None, score) for replicate, score in measured.items()}
        subtracted = self._scores(before)
        return {r: (subtracted[r], score) for r, score in measured.items() if r in subtracted}

    def by_replicate(self, quantity: str) -> dict[Replicate, float]:
        """Replicate -> value in percent."""
        pairs = self.pairs(quantity).items()
        return {r: PERCENT * (after.value - (before.value if before else 0.0)) for r, (before, after) in pairs}

    def rounding(self, quantity: str) -> float:
        """Standard deviation, in percent, of the rounding of one value: success is counted in steps of 1/instances."""
        counts = [[score.count for score in pair if score and score.count] for pair in self.pairs(quantity).values()]
        variances = [sum((UNIFORM / count) ** 2 for count in pair) for pair in counts]
        return PERCENT * float(np.sqrt(max(variances, default=0.0)))

    def _side(self, condition: str) -> Side:
        return self.baseline if condition == "baseline" else self.treatment

    def _scores(self, term: tuple[str, str]) -> Mapping[Replicate, Score]:
        condition, score = term
        return self._side(condition).scores[score]

    def _estimate(self, quantity: str) -> Estimate:
        needed = [part for part in QUANTITIES[quantity] if part is not None]
        sides = {condition: self._side(condition) for condition, _ in needed}
        pairs = self.pairs(quantity)
        facts: dict[str, Any] = {
            "wanted": len(set().union(*(side.runs for side in sides.values()))),
            "run_ids": tuple(side.runs[replicate].id for side in sides.values() for replicate in pairs),
            "note": "; ".join(_reasons(needed, sides)),
        }
        if len(pairs) == 1:
            return _single_seed(*next(iter(pairs.values())), facts).scaled(PERCENT)
        values, rounding = self.by_replicate(quantity), self.rounding(quantity)
        return _bounded(over_replicates(values, rounding, builds=self.builds, **facts), quantity)


def _bounded(estimate: Estimate, quantity: str) -> Estimate:
    """The interval of a success rate ends at 0 and 100 %; that of a change is left as it is."""
    if QUANTITIES[quantity][0] is not None or estimate.low is None or estimate.high is None:
        return estimate
    return replace(estimate, low=max(estimate.low, 0.0), high=min(estimate.high, PERCENT))


def _reasons(needed: Sequence[tuple[str, str]], sides: Mapping[str, Side]) -> list[str]:
    return list(dict.fromkeys(why for condition, name in needed if (why := sides[condition].reason(name))))


def _single_seed(before: Score | None, after: Score, facts: dict[str, Any]) -> Estimate:
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

    One seed: the cells' intervals over instances combined. Several: the mean over the cells of each replicate, then
    over replicates.
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
        values = [cell.by_replicate(quantity) for cell in cells]
        common = [replicate for replicate in values[0] if all(replicate in column for column in values)]
        if not common:
            return Estimate(wanted=wanted, note="; ".join(["no seed has every column", *notes]))
        means = {replicate: float(np.mean([column[replicate] for column in values])) for replicate in common}
        rounding = float(np.sqrt(sum(cell.rounding(quantity) ** 2 for cell in cells))) / len(cells)
        return _bounded(over_replicates(means, rounding, builds=cells[0].builds, **facts), quantity)
    bounds = [(part.value, part.low, part.high) for part in parts if part.value is not None]
    if any(low is None for _, low, _ in bounds):
        return Estimate(float(np.mean([value for value, _, _ in bounds])), seeds=1, **facts)
    return Estimate(*combine_mean(bounds), "instances", 1, **facts)  # type: ignore[arg-type]
