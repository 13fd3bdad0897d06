"""The curve of a trial: the objective of its runs at each evaluation, at positions that are comparable between trials.

The seeds of a trial run one after another. At position `k (iterations + 1) + step` the curve has the mean of the final
values of the first k seeds and the present value of the next. So equal positions of two trials have seen equally many
seeds and steps.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from plat.errors import SpecError
from plat.search.run_pruner import run_pruner
from plat.search.search_settings import Chosen, Objective
from plat.search.values import Curves, value_of
from plat.store.home import Home
from plat.suggest import suggest
from plat.user_code import user_code


class Diverged(SpecError):
    """A run has logged an objective, and no finite value of it."""


@dataclass(frozen=True)
class Point:
    """An evaluation of a trial.

    value     the mean over the seeds so far; None if the run has no finite value at this step
    stop      why the search's pruner stops the trial here, if it is a RunPruner; "" if it does not
    """

    run_id: str
    step: int
    position: int
    value: float | None
    stop: str


class TrialCurve:
    """The runs of a trial as a curve.

    runs        run id -> name, in the order of the seeds
    objectives  the first one makes the curve
    pruner      a RunPruner judges its own metrics, too
    iterations  of one run
    """

    def __init__(
        self, home: Home, runs: Mapping[str, str], objectives: Sequence[Objective], pruner: Chosen, iterations: int
    ) -> None:
        self._names = dict(runs)
        self._objective = objectives[0]
        self._pruner = pruner
        self._iterations = iterations
        self._run_pruner = run_pruner(pruner.name)
        self._watched = self._run_pruner.metrics if self._run_pruner else ()
        metrics = {*(objective.metric for objective in objectives), *self._watched}
        self._curves = {run_id: Curves(home.run(run_id), metrics) for run_id in runs}
        self._seen = dict.fromkeys(runs, -1)  # newest step that was given

    def new(self, done: Collection[str]) -> Iterator[Point]:
        """Yield the evaluations not yielded before, in order, each as if the run had ended there.

        done  the ids of the runs that are done; a step of another run is yielded when a later one has begun

        Raises Diverged or SpecError, as `value`, for an earlier seed.
        """
        for seed, run_id in enumerate(self._names):
            curves = self._curves[run_id].update()
            last = curves.newest if run_id in done else curves.newest - 1
            steps = {step for metric in (self._objective.metric, *self._watched) for step in curves[metric]}
            for step in sorted(step for step in steps if self._seen[run_id] < step <= last):
                self._seen[run_id] = step
                now, value = curves[self._objective.metric].get(step, math.nan), None
                if not math.isnan(now):
                    earlier = [self.value(each, self._objective) for each in list(self._names)[:seed]]
                    value = fmean([*earlier, now])
                stop = self._stop(curves, step)
                yield Point(run_id, step, seed * (self._iterations + 1) + step, value, stop)
            if run_id not in done:
                return

    def _stop(self, curves: Curves, step: int) -> str:
        if self._run_pruner is None:
            return ""
        watched = {metric: curves[metric] for metric in self._watched}
        with user_code(f"the pruner {self._pruner.name!r} failed"):
            return self._run_pruner.judge(watched, step, self._pruner.options)

    def value(self, run_id: str, objective: Objective) -> float:
        """Return the value of an objective in one run.

        Raises Diverged if the run has no finite value of it, and SpecError if it has not logged it.
        """
        curves = self._curves[run_id].update()
        value = value_of(curves[objective.metric], objective)
        if value is None and curves[objective.metric]:
            if objective.diverged == "worst":
                return -math.inf if objective.maximize else math.inf
            raise Diverged(f"{self._names[run_id]} diverged: it has no finite value of {objective.metric!r}")
        if value is None:
            names = sorted(curves.names)
            known = suggest(objective.metric, [*names, "success"], "metrics") if names else "it logged no metric at all"
            what = f"the run {self._names[run_id]} has not logged {objective.metric!r}"
            raise SpecError(what, where=objective.where, fix=known)
        return value

    def iterations(self) -> int:
        """Return the iterations of training so far: the sum of the newest steps of the runs."""
        return sum(max(0, curves.update().newest) for curves in self._curves.values())

    def seen_iterations(self) -> int:
        """Return the iterations up to the newest evaluation that was yielded, even if the runs went further."""
        return sum(max(0, step) for step in self._seen.values())
