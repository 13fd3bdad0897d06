"""A trial under way: its runs, one for each seed, and what they have shown so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from plat.errors import SpecError
from plat.search.file import Search
from plat.search.pruners import WATCHED, collapse_seen
from plat.search.study import Study
from plat.search.values import Curves, mean, value_of
from plat.store.home import Home
from plat.suggest import mend

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from plat.spec.runs import Run


class OpenTrial:
    """A trial that was asked for and not told. Its runs are those of its stored parameters, so that whoever takes the
    study up later has the same ones."""

    def __init__(self, home: Home, search: Search, stored: FrozenTrial, runs: Sequence[Run]) -> None:
        self.number = stored.number
        self.runs = list(runs)
        self.done: set[str] = set()
        self._search = search
        self._reported = set(stored.intermediate_values)
        metrics = {objective.metric for objective in search.objectives}
        if search.pruner.name == "retrieval":
            metrics.update(WATCHED)
        self._curves = {run.id: Curves(home.run(run.id), metrics) for run in runs}
        self._judged = dict.fromkeys(self._curves, -1)  # newest step that was judged

    @property
    def one_by_one(self) -> bool:
        """Whether its runs go one after another, so that the first can spare the others."""
        return self._search.pruner.name != "none"

    def wanted(self) -> list[Run]:
        """The runs that should be under way now."""
        left = [run for run in self.runs if run.id not in self.done]
        return left[:1] if self.one_by_one else left

    @property
    def is_over(self) -> bool:
        return all(run.id in self.done for run in self.runs)

    def iterations(self) -> int:
        """What it has cost so far: the sum of the newest steps of its runs."""
        return sum(max(0, curves.update().newest) for curves in self._curves.values())

    def values(self) -> list[float]:
        """The values of the objectives, each the mean over its runs; SpecError when one was not measured."""
        return [mean(self._value(run, index) for run in self.runs) for index in range(len(self._search.objectives))]

    def judge(self, study: Study, pruner: object) -> str:
        """Report what its runs have newly shown; why it is given up, "" when it goes on.

        Steps are judged in their order, each as if the run had gone no further, so that a run that was done before
        is judged as it would have been while it went on.
        """
        span = self._search.iterations + 1
        objective = self._search.objectives[0]
        for position, run in enumerate(self.runs):
            curves = self._curves[run.id].update()
            curve = curves[objective.metric]
            before = [self._value(earlier, 0) for earlier in self.runs[:position]]
            for step in self._new_steps(run, curves):
                self._judged[run.id] = step
                at = position * span + step
                if step in curve and at not in self._reported and curve[step] == curve[step]:
                    self._reported.add(at)
                    stored = study.report(self.number, at, mean([*before, curve[step]]))
                    if pruner is not None and study.should_prune(pruner, stored):
                        return f"{self._search.pruner.name}: {stored.intermediate_values[at]:.4g} at step {step}"
                if self._search.pruner.name == "retrieval":
                    reason = collapse_seen(curves, step, self._search.pruner.options)
                    if reason:
                        return reason
            if run.id not in self.done:
                return ""
        return ""

    def judged_iterations(self) -> int:
        """The iterations up to where it was given up, whether or not its runs went further."""
        return sum(max(0, step) for step in self._judged.values())

    def _new_steps(self, run: Run, curves: Curves) -> list[int]:
        """Steps that are whole, because a later one has begun or the run has ended, and that were not judged yet."""
        last = curves.newest if run.id in self.done else curves.newest - 1
        metrics = [self._search.objectives[0].metric]
        metrics += WATCHED if self._search.pruner.name == "retrieval" else ()
        steps = {step for metric in metrics for step in curves[metric]}
        return [step for step in sorted(steps) if self._judged[run.id] < step <= last]

    def _value(self, run: Run, index: int) -> float:
        objective = self._search.objectives[index]
        curves = self._curves[run.id].update()
        value = value_of(curves[objective.metric], objective)
        if value is None:
            names = sorted(curves.names)
            known = mend(objective.metric, [*names, "success"], "metrics") if names else "it logged no metric at all"
            raise SpecError(
                f"the run {run.name} has no finite value of {objective.metric!r}", where=objective.where, mend=known
            )
        return value
