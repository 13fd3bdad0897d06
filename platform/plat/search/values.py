"""The metric curves of a run by which a search judges it, during and after the run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from plat.search.search_settings import Objective
from plat.store.run_directory.history import count_events, covered_attempts
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.run_files import headline_of, load_meta
from plat.store.run_directory.spool import Event, read_events
from plat.words.metric_names import SUCCESS

Curve = dict[int, float]  # step -> value


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
