"""The curve of a trial: the objective of its runs at each evaluation, at positions that are comparable between trials.

The seeds of a trial run one after another. At position `k (iterations + 1) + step` the curve has the mean of the final
values of the first k seeds and the present value of the next. So equal positions of two trials have seen equally many
seeds and steps.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from plat.errors import SpecError
from plat.search.run_pruner import Curve, run_pruner
from plat.search.search_settings import Chosen, Objective
from plat.store.home import Home
from plat.store.run_directory.history import count_events, covered_attempts
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.run_files import headline_of, load_meta
from plat.store.run_directory.spool import Event, read_events
from plat.suggest import suggest
from plat.user_code import user_code
from plat.words.metric_names import SUCCESS


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


# The metric curves of a run by which a search judges it, during and after the run.


class Curves:
    """The curves of some metrics of one run; `update` reads new events. `success` names the headline metric.

    While the run has no result, events of its newest attempt count even if no checkpoint covers them yet.
    """

    def __init__(self, paths: RunPaths, metrics: Iterable[str]) -> None:
        self.newest = -1  # step
        self.names: set[str] = set()  # of every metric logged so far
        self._paths = paths
        self._curves: dict[str, Curve] = {metric: {} for metric in metrics}
        self._events: dict[int, list[Event]] = {}  # attempt -> its events other than tables
        self._offsets: dict[int, int] = {}
        self._headline: str | None = None

    def __getitem__(self, metric: str) -> Curve:
        return self._curves[metric]

    def update(self) -> Curves:
        """Read the events logged since the last call, and return this object."""
        if self._headline is None and (meta := load_meta(self._paths)) is not None:
            self._headline = headline_of(meta)
        counted, _ = count_events(
            (self._read(attempt), coverage) for attempt, coverage in covered_attempts(self._paths, uncovered=True)
        )
        curves: dict[str, Curve] = {}
        for metric in counted:
            curves.setdefault(metric.key, {})[metric.step] = metric.value
        self.names = set(curves)
        headline = self._headline or ""
        self._curves = {name: curves.get(headline if name == SUCCESS else name, {}) for name in self._curves}
        return self

    def _read(self, attempt: AttemptPaths) -> list[Event]:
        """Return the events of an attempt other than tables; only new lines are read."""
        known = self._events.setdefault(attempt.number, [])
        events, self._offsets[attempt.number] = read_events(attempt.events, self._offsets.get(attempt.number, 0))
        known += [event for event in events if event.table is None]
        self.newest = max([self.newest, *(event.step for event in events)])
        return known


def value_of(curve: Mapping[int, float], objective: Objective) -> float | None:
    """Return the value of an objective in one run; None if its metric has no finite value."""
    values = [value for _, value in sorted(curve.items()) if math.isfinite(value)]
    if not values:
        return None
    if objective.of == "mean":
        return sum(values) / len(values)
    if objective.of == "best":
        return max(values) if objective.maximize else min(values)
    return values[-1]
