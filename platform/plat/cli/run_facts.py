"""What can be said of one run, by the name of a column: its axes, how it stands, what it cost, its config and its
metrics.

Facts come from the run's own directory, never from MLflow, so that they are true while it runs. Most are read when
they are first asked for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from plat.cli.entries import Entry
from plat.cli.output import tell
from plat.errors import HomeError
from plat.store.home import Home
from plat.store.run_directory.damage import spool_damage
from plat.store.run_directory.files import (
    headline_of,
    load_config,
    load_meta,
    mend_of,
    read_attempt_meta,
    read_outcome,
    read_result,
)
from plat.store.run_directory.spool import read_events
from plat.trainer.api import RETRIEVAL
from plat.units import duration, percent

FIELDS = {
    "run": "its name",
    "id": "its id",
    "state": "where it stands",
    "outcome": "how it, or its last attempt, ended",
    "attempts": "how often it was started",
    "iteration": "the newest one",
    "iterations": "how many it has",
    "success": "the newest value of its headline metric",
    "best": "the best value of its headline metric",
    "retrieval": "the newest retrieval accuracy",
    "seconds": "the time that all attempts took together",
    "age": "seconds since its last sign of life",
    "reason": "why its last attempt ended",
    "trainer": "what trains it",
    "files": "the experiment files that ask for it",
}

SHARES = ("success", "best", "retrieval")  # shown in percent


class RunFacts:
    """The facts of one run."""

    def __init__(self, home: Home, entry: Entry) -> None:
        self.entry = entry
        self.paths = home.run(entry.id)

    def value(self, key: str, axes: Mapping[str, Any] | None = None) -> Any:
        """The value of a column: of an axis of the run, else of a field, else of a key of its config, else the newest
        value of a metric.

        `max:KEY` and `min:KEY` give the largest and the smallest value of a metric. None where the run has none.

        axes  those of another position of a matrix that is this run; default: its own
        """
        position = self.entry.axes if axes is None else axes
        if key in position:
            return position[key]
        if key in FIELDS:
            return _READERS[key](self)
        if key.startswith(("max:", "min:")):
            values = [value for value in self._series(key[4:]).values() if not math.isnan(value)]
            return (max if key.startswith("max:") else min)(values, default=None)
        value = self.config_value(key)
        return self._newest(key) if value is None else value

    def config_value(self, key: str) -> Any:
        """The value of a dotted key of the run's config, of a group (`task`) its name; None where it has none."""
        value: Any = self._config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value.get("name") if isinstance(value, Mapping) else value

    def config_keys(self) -> list[str]:
        """The dotted keys of the run's config, its groups first."""
        from plat.spec.schema import leaves

        keys = list(leaves(dict(self._config)))
        return [*(key.removesuffix(".name") for key in keys if key.endswith(".name")), *keys]

    def as_json(self) -> dict[str, Any]:
        """Every fact, apart from those for which the whole spool must be read."""
        return {"axes": self.entry.axes, **{key: _READERS[key](self) for key in FIELDS if key != "retrieval"}}

    def attempts(self) -> int:
        """How often it was started."""
        return len(self._result.get("attempts") or ()) or self.entry.state.attempt

    def best(self) -> float | None:
        """The best value of its headline metric: the peak where its result says it, else the highest logged so far."""
        peak = (self._result.get("summary") or {}).get("peak_success")
        return peak if isinstance(peak, float) else self.value(f"max:{headline_of(self._meta)}")

    def seconds(self) -> float | None:
        """Of ended attempts what they recorded; of one that runs the time since it began."""
        if "wall" in self._result:
            return float(self._result["wall"])
        attempts = self.paths.attempts()
        walls = [float((read_outcome(attempt) or {}).get("wall") or 0.0) for attempt in attempts]
        if self.entry.state.state == "running" and attempts and not attempts[-1].outcome.exists():
            began = read_attempt_meta(attempts[-1]).get("time")
            walls.append(max(0.0, time.time() - began) if isinstance(began, int | float) else 0.0)
        return sum(walls) if walls else None

    def trainer(self) -> str | None:
        """The name of its trainer."""
        return self._meta.get("trainer")

    @property
    def files(self) -> list[str]:
        """The names of the experiment files that have asked for it."""
        return list(self._meta.get("experiments") or ())

    @cached_property
    def _result(self) -> dict[str, Any]:
        return (read_result(self.paths) or {}) if self.entry.state.state == "done" else {}

    @cached_property
    def _meta(self) -> dict[str, Any]:
        return load_meta(self.paths) or {}

    @cached_property
    def _config(self) -> Mapping[str, Any]:
        """The resolved config; empty where its file is missing or cannot be read."""
        if self.entry.config is not None:
            return self.entry.config
        try:
            return load_config(self.paths, self._meta)
        except HomeError:
            return {}

    @cached_property
    def _metrics(self) -> dict[str, dict[int, float]]:
        """Metric -> step -> value as the spools of all attempts have it, the newest attempt counting.

        Nothing of a done run whose events are damaged, which is named on stderr.
        """
        if self.entry.state.state == "done" and (problem := spool_damage(self.paths)):
            tell(f"warning: {self.entry.name} is damaged: {problem} ({mend_of(problem)})")
            return {}
        series: dict[str, dict[int, float]] = {}
        for attempt in self.paths.attempts():
            for event in read_events(attempt.events)[0]:
                if not event.is_damaged:
                    for key, value in event.metrics.items():
                        series.setdefault(key, {})[event.step] = value
        return series

    def _series(self, key: str) -> dict[int, float]:
        return self._metrics.get(key, {})

    def _newest(self, key: str) -> float | None:
        values = self._series(key)
        return values[max(values)] if values else None

    def metric_names(self) -> list[str]:
        """The metrics that the run has logged."""
        return sorted(self._metrics)

    def curve(self, key: str) -> list[tuple[int, float]]:
        """(step, value) of one metric, in the order of steps."""
        return sorted(self._series(key).items())


_READERS: dict[str, Callable[[RunFacts], Any]] = {
    "run": lambda facts: facts.entry.name,
    "id": lambda facts: facts.entry.id,
    "state": lambda facts: facts.entry.state.state,
    "outcome": lambda facts: facts.entry.state.outcome,
    "attempts": RunFacts.attempts,
    "iteration": lambda facts: facts.entry.state.step,
    "iterations": lambda facts: facts.entry.state.iterations,
    "success": lambda facts: facts.entry.state.success,
    "best": RunFacts.best,
    "retrieval": lambda facts: facts._newest(RETRIEVAL),
    "seconds": RunFacts.seconds,
    "age": lambda facts: facts.entry.state.age,
    "reason": lambda facts: facts.entry.state.reason or None,
    "trainer": RunFacts.trainer,
    "files": lambda facts: " ".join(facts.files) or None,
}


def axes_of(runs: Sequence[RunFacts]) -> list[str]:
    """The axes of some runs, in the order of the files."""
    return list(dict.fromkeys(axis for facts in runs for axis in facts.entry.axes))


def varying_axes(runs: Sequence[RunFacts]) -> list[str]:
    """The axes in which some runs differ."""
    return [axis for axis in axes_of(runs) if len({str(facts.entry.axes.get(axis)) for facts in runs}) > 1]


def spelled(key: str, value: Any) -> Any:
    """A value as the table shows it."""
    if value is None:
        return None
    if key in SHARES:
        return percent(value)
    if key in ("seconds", "age"):
        return duration(value)
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value
