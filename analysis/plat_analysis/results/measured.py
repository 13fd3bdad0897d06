"""Any metric of the runs laid out as rows x columns, each cell estimated over builds of the base model or over seeds.

At the start of a run its policy is its base model, in which the run's seed has no part: there, builds alone are the
independent units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from plat_analysis.results.places import places
from plat_analysis.results.runs import Results, RunView
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds, Replicate, over_replicates

At = Literal["start", "end"]


@dataclass(frozen=True)
class Measured:
    """A metric of every run, at its start (before training) or at its end, times `factor`; within `bounds` if given.

    `builds` says whether an estimate is about these builds of the base model or about such builds.
    """

    metric: str
    at: At = "end"
    factor: float = 1.0
    bounds: tuple[float, float] | None = None
    builds: Builds = "random"

    def values(self, results: Results, runs: Mapping[Replicate, RunView]) -> dict[Replicate, float]:
        """Replicate -> value, of the runs that have a result and recorded the metric."""
        curves = {
            replicate: results.curve(run.id, self.metric)[1] for replicate, run in runs.items() if not run.missing
        }
        index = 0 if self.at == "start" else -1
        return {replicate: self.factor * float(curve[index]) for replicate, curve in curves.items() if len(curve)}

    def estimate(self, results: Results, runs: Mapping[Replicate, RunView]) -> Estimate:
        """The mean over the runs of one cell, with its interval. Equal values have none: they show nothing of their
        spread."""
        estimate = self._over(self.values(results, runs), runs)
        if estimate.deviation == 0:
            return replace(estimate, low=None, high=None, over="")
        if self.bounds is None or estimate.low is None or estimate.high is None:
            return estimate
        return replace(estimate, low=max(estimate.low, self.bounds[0]), high=min(estimate.high, self.bounds[1]))

    def difference(
        self, results: Results, first: Mapping[Replicate, RunView], second: Mapping[Replicate, RunView]
    ) -> Estimate:
        """The second cell minus the first, paired by build and seed."""
        before, after = self.values(results, first), self.values(results, second)
        changes = {replicate: after[replicate] - before[replicate] for replicate in after if replicate in before}
        estimate = self._over(changes, {**first, **second})
        ids = [runs[replicate].id for runs in (first, second) for replicate in changes]
        return replace(estimate, run_ids=tuple(ids))

    def _over(self, values: Mapping[Replicate, float], runs: Mapping[Replicate, RunView]) -> Estimate:
        return over_replicates(
            values,
            seedless=self.at == "start",
            builds=self.builds,
            wanted=len(runs),
            run_ids=tuple(runs[replicate].id for replicate in values),
            note=_absences({r: run.missing or "not measured" for r, run in runs.items() if r not in values}, len(runs)),
        )


def _absences(absent: Mapping[Replicate, str], wanted: int) -> str:
    """Why runs of a cell have no value: one reason where it is that of all, else replicate by replicate."""
    if absent and len(absent) == wanted and len(set(absent.values())) == 1:
        return next(iter(absent.values()))
    return ", ".join(f"{replicate}: {reason}" for replicate, reason in absent.items())


def cells(
    results: Results, rows: str | Sequence[str], columns: str
) -> tuple[dict[tuple[str, str], dict[Replicate, RunView]], list[str], list[str]]:
    """((row, column) -> its runs, rows, columns), in the order of the experiment file."""
    groups = places(results, [rows] if isinstance(rows, str) else rows, columns)
    return groups, list(dict.fromkeys(row for row, _ in groups)), list(dict.fromkeys(column for _, column in groups))
