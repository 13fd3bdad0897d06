"""An open trial: its runs, one for each seed, and their curve so far."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from plat.search.search import Search
from plat.search.study import Study
from plat.search.trial_curve import TrialCurve
from plat.store.home import Home

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from plat.spec.expansion.run import Run


class OpenTrial:
    """A trial whose values the study does not have yet. `done`: ids of the runs that are done.

    The runs follow from the stored parameters, so a later process gets the same ones.
    """

    def __init__(self, home: Home, search: Search, stored: FrozenTrial, runs: Sequence[Run]) -> None:
        self.number = stored.number
        self.runs = list(runs)
        self.done: set[str] = set()
        self._search = search
        self._reported = set(stored.intermediate_values)
        names = {run.id: run.name for run in runs}
        self.curve = TrialCurve(home, names, search.objectives, search.pruner, search.iterations)

    def wanted(self) -> list[Run]:
        """Return the runs that are not done, in the order of the seeds."""
        return [run for run in self.runs if run.id not in self.done]

    @property
    def is_over(self) -> bool:
        return all(run.id in self.done for run in self.runs)

    def values(self) -> list[float]:
        """Return the value of each objective, the mean over the runs.

        Raises Diverged if one has no finite value, SpecError if it was not logged.
        """
        return [fmean(self.curve.value(run.id, each) for run in self.runs) for each in self._search.objectives]

    def judge(self, study: Study, pruner: object) -> str:
        """Report the new evaluations to the study; return why the trial is pruned, "" if it is not.

        Evaluations are judged in order, also those of runs that are done already.
        """
        for point in self.curve.new(self.done):
            if point.position not in self._reported and point.value is not None:
                self._reported.add(point.position)
                stored = study.report(self.number, point.position, point.value)
                if pruner is not None and study.should_prune(pruner, stored):
                    return f"{self._search.pruner.name}: {point.value:.4g} at step {point.step}"
            if point.stop:
                return point.stop
        return ""
