"""A trial under way: its runs, one for each seed, and what they have shown so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from plat.errors import SpecError
from plat.search.pruners import WATCHED, collapse_seen
from plat.search.search import Search
from plat.search.settings import Objective
from plat.search.study import Study
from plat.search.values import Curves, mean, value_of
from plat.store.home import Home
from plat.suggest import mend

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from plat.spec.runs import Run


class OpenTrial:
    """A trial that was asked for and whose values were not told to the study yet.

    Its runs are those of its stored parameters, so that whoever takes the study up later has the same ones. `done` has
    the ids of those that are done.
    """

    def __init__(self, home: Home, search: Search, stored: FrozenTrial, runs: Sequence[Run]) -> None:
        self.number = stored.number
        self.runs = list(runs)
        self.done: set[str] = set()
        self._search = search
        self._objective = search.objectives[0]
        self._reported = set(stored.intermediate_values)
        metrics = {objective.metric for objective in search.objectives}
        if search.pruner.name == "retrieval":
            metrics.update(WATCHED)
        self._curves = {run.id: Curves(home.run(run.id), metrics) for run in runs}
        self._judged = dict.fromkeys(self._curves, -1)  # newest step that was judged

    def wanted(self) -> list[Run]:
        """The runs that should be under way now. Where a trial may be given up they go one after another, so that the
        first can spare the others."""
        left = [run for run in self.runs if run.id not in self.done]
        return left if self._search.pruner.name == "none" else left[:1]

    @property
    def is_over(self) -> bool:
        return all(run.id in self.done for run in self.runs)

    def iterations(self) -> int:
        """What it has cost so far: the sum of the newest steps of its runs."""
        return sum(max(0, curves.update().newest) for curves in self._curves.values())

    def values(self) -> list[float]:
        """The values of the objectives, each the mean over its runs; SpecError when one was not measured."""
        return [mean(self._value(run, objective) for run in self.runs) for objective in self._search.objectives]

    def judge(self, study: Study, pruner: object) -> str:
        """Report what its runs have newly shown; why it is given up, "" when it goes on.

        Steps are judged in their order, each as if the run had gone no further, so that a run that was done before
        is judged as it would have been while it went on.
        """
        for position, run in enumerate(self.runs):
            curves = self._curves[run.id].update()
            for step in self._new_steps(run, curves):
                self._judged[run.id] = step
                reason = self._judge_objective(study, pruner, position, step) or self._judge_reasoning(curves, step)
                if reason:
                    return reason
            if run.id not in self.done:
                return ""
        return ""

    def _judge_objective(self, study: Study, pruner: object, position: int, step: int) -> str:
        """Report the value of the objective at one step of the run at this position, and ask Optuna's pruner."""
        curve = self._curves[self.runs[position].id][self._objective.metric]
        at = position * (self._search.iterations + 1) + step
        if at in self._reported or math.isnan(curve.get(step, math.nan)):
            return ""
        self._reported.add(at)
        before = [self._value(earlier, self._objective) for earlier in self.runs[:position]]
        stored = study.report(self.number, at, mean([*before, curve[step]]))
        if pruner is None or not study.should_prune(pruner, stored):
            return ""
        return f"{self._search.pruner.name}: {stored.intermediate_values[at]:.4g} at step {step}"

    def _judge_reasoning(self, curves: Curves, step: int) -> str:
        """What the pruner `retrieval` says of one step; "" when another pruner was chosen."""
        if self._search.pruner.name != "retrieval":
            return ""
        return collapse_seen(curves, step, self._search.pruner.options)

    def judged_iterations(self) -> int:
        """The iterations up to where it was given up, whether or not its runs went further."""
        return sum(max(0, step) for step in self._judged.values())

    def _new_steps(self, run: Run, curves: Curves) -> list[int]:
        """Steps that are whole, because a later one has begun or the run has ended, and that were not judged yet."""
        last = curves.newest if run.id in self.done else curves.newest - 1
        metrics = [self._objective.metric]
        metrics += WATCHED if self._search.pruner.name == "retrieval" else ()
        steps = {step for metric in metrics for step in curves[metric]}
        return [step for step in sorted(steps) if self._judged[run.id] < step <= last]

    def _value(self, run: Run, objective: Objective) -> float:
        curves = self._curves[run.id].update()
        value = value_of(curves[objective.metric], objective)
        if value is None:
            names = sorted(curves.names)
            known = mend(objective.metric, [*names, "success"], "metrics") if names else "it logged no metric at all"
            raise SpecError(
                f"the run {run.name} has no finite value of {objective.metric!r}", where=objective.where, mend=known
            )
        return value
