"""What a run's events say of it, read while it goes on or when it has ended.

Of each (metric, step) the first value counts, as in `plat.store.run_directory.history`; a resumed run logs the same
values again, so that it does not matter that some of them may not be covered by a checkpoint yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from plat.search.settings import Objective
from plat.store.run_directory.files import headline_of, load_meta
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.spool import read_events

Curve = dict[int, float]  # step -> value


class Curves:
    """The curves of some metrics of one run; `update` reads what is new. `metrics` may name `success`."""

    def __init__(self, paths: RunPaths, metrics: Iterable[str]) -> None:
        self.newest = -1  # step
        self.names: set[str] = set()  # of every metric logged so far
        self._paths = paths
        self._curves: dict[str, Curve] = {metric: {} for metric in metrics}
        self._offsets: dict[int, int] = {}
        self._headline: str | None = None

    def __getitem__(self, metric: str) -> Curve:
        return self._curves[metric]

    def update(self) -> Curves:
        """Read the events that were logged since; gives itself."""
        if self._headline is None and (meta := load_meta(self._paths)) is not None:
            self._headline = headline_of(meta)
        for attempt in self._paths.attempts():
            events, self._offsets[attempt.number] = read_events(attempt.events, self._offsets.get(attempt.number, 0))
            for event in events:
                if event.is_damaged:
                    continue
                self.newest = max(self.newest, event.step)
                self.names.update(event.metrics)
                for metric, curve in self._curves.items():
                    value = event.metrics.get(self._headline or "" if metric == "success" else metric)
                    if value is not None:
                        curve.setdefault(event.step, value)
        return self


def value_of(curve: Mapping[int, float], objective: Objective) -> float | None:
    """The value of an objective in one run; None where its metric has no finite value."""
    values = [value for _, value in sorted(curve.items()) if math.isfinite(value)]
    if not values:
        return None
    if objective.of == "mean":
        return sum(values) / len(values)
    if objective.of == "best":
        return max(values) if objective.maximize else min(values)
    return values[-1]


def mean(values: Iterable[float]) -> float:
    """The mean of at least one number."""
    listed = list(values)
    return math.fsum(listed) / len(listed)
