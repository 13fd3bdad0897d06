"""An open trial: its runs, one for each seed, and their curves so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from plat.errors import SpecError
from plat.search.pruners import WATCHED, collapse_seen
from plat.search.search import Search
from plat.search.search_settings import Objective
from plat.search.study import Study
from plat.search.values import Curves, value_of
from plat.store.home import Home
from plat.suggest import suggest

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from plat.spec.expansion.run import Run


class Diverged(SpecError):
    """A run has logged an objective, and no finite value of it."""


class OpenTrial:
    """A trial whose values the study does not have yet. `done`: ids of the runs that are done.

    The runs follow from the stored parameters, so a later process gets the same ones.
    """

    def __init__(self, home: Home, search: Search, stored: FrozenTrial, runs: Sequence[Run]) -> None:
        self.number = stored.number
        self.runs = list(runs)
        self.done: set[str] = set()
        self._search = search
        self._objective = search.objectives[0]
        self._reported = set(stored.intermediate_values)
        metrics = {objective.metric for objective in search.objectives}
        self._by_reasoning = search.pruner.name == "retrieval"
        if self._by_reasoning:
            metrics.update(WATCHED)
        self._curves = {run.id: Curves(home.run(run.id), metrics) for run in runs}
        self._judged = dict.fromkeys(self._curves, -1)  # newest step that was judged

    def wanted(self) -> list[Run]:
        """Return the runs to do now; with a pruner one at a time, so that stopping the first saves the others."""
        left = [run for run in self.runs if run.id not in self.done]
        return left if self._search.pruner.name == "none" else left[:1]

    @property
    def is_over(self) -> bool:
        return all(run.id in self.done for run in self.runs)

    def iterations(self) -> int:
        """Return the iterations of training so far: the sum of the newest steps of the trial's runs."""
        return sum(max(0, curves.update().newest) for curves in self._curves.values())

    def values(self) -> list[float]:
        """Return the value of each objective, the mean over the runs.

        Raises Diverged if one has no finite value, SpecError if it was not logged.
        """
        return [fmean(self._value(run, objective) for run in self.runs) for objective in self._search.objectives]

    def judge(self, study: Study, pruner: object) -> str:
        """Report the new steps of the runs to the study; return why the trial is pruned, "" if it is not.

        Steps are judged in order, each as if the run had ended there, also those of runs that are done already.
        """
        for position, run in enumerate(self.runs):
            curves = self._curves[run.id].update()
            for step in self._new_steps(run, curves):
                self._judged[run.id] = step
                reason = self._judge_objective(study, pruner, position, step)
                if not reason and self._by_reasoning:
                    reason = collapse_seen(curves, step, self._search.pruner.options)
                if reason:
                    return reason
            if run.id not in self.done:
                return ""
        return ""

    def _judge_objective(self, study: Study, pruner: object, position: int, step: int) -> str:
        """Report the objective at one step of the run at this position, and ask Optuna's pruner."""
        curve = self._curves[self.runs[position].id][self._objective.metric]
        at = position * (self._search.iterations + 1) + step
        if at in self._reported or math.isnan(curve.get(step, math.nan)):
            return ""
        self._reported.add(at)
        before = [self._value(earlier, self._objective) for earlier in self.runs[:position]]
        stored = study.report(self.number, at, fmean([*before, curve[step]]))
        if pruner is None or not study.should_prune(pruner, stored):
            return ""
        return f"{self._search.pruner.name}: {stored.intermediate_values[at]:.4g} at step {step}"

    def judged_iterations(self) -> int:
        """Return the iterations up to the step where the trial was pruned, even if its runs went further."""
        return sum(max(0, step) for step in self._judged.values())

    def _new_steps(self, run: Run, curves: Curves) -> list[int]:
        """Return the unjudged steps that are complete: a later step has begun, or the run is done."""
        last = curves.newest if run.id in self.done else curves.newest - 1
        metrics = [self._objective.metric, *(WATCHED if self._by_reasoning else ())]
        steps = {step for metric in metrics for step in curves[metric]}
        return [step for step in sorted(steps) if self._judged[run.id] < step <= last]

    def _value(self, run: Run, objective: Objective) -> float:
        curves = self._curves[run.id].update()
        value = value_of(curves[objective.metric], objective)
        if value is None and curves[objective.metric]:
            if objective.diverged == "worst":
                return -math.inf if objective.maximize else math.inf
            raise Diverged(f"{run.name} diverged: it has no finite value of {objective.metric!r}")
        if value is None:
            names = sorted(curves.names)
            known = suggest(objective.metric, [*names, "success"], "metrics") if names else "it logged no metric at all"
            what = f"the run {run.name} has not logged {objective.metric!r}"
            raise SpecError(what, where=objective.where, fix=known)
        return value
