"""The facts of one run by column name: axes, state, cost, config and metrics.

They come from the run's own directory, so they are current while the run trains. The metrics of a done run come
from its artifact in the store of the home, and from its directory as long as the store does not have it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from plat.app.entries import Entry
from plat.app.messages import tell
from plat.characters import one_line
from plat.errors import HomeError
from plat.peak import peak_of
from plat.store.home import Home
from plat.store.mlflow.last_values import last_values, metrics_of, stored_run
from plat.store.mlflow.stored_runs import StoredRun
from plat.store.run_directory.damage import spool_damage
from plat.store.run_directory.history import run_history
from plat.store.run_directory.run_files import (
    headline_of,
    load_config,
    load_meta,
    read_attempt_meta,
    read_outcome,
    read_result,
)
from plat.trainer.finding import shown_metrics
from plat.units import duration, measured, percent
from plat.words.metric_names import own_metric
from plat.words.states import RunStatus
from plat.words.usage import Usage

METRIC = "metric:"  # a metric whose name an axis or a field has
SHARES = ("success", "best")  # shown in percent


class RunFacts:
    """The facts of one run."""

    def __init__(self, home: Home, entry: Entry) -> None:
        self.entry = entry
        self.paths = home.run(entry.id)
        self._home = home

    def value(self, key: str, axes: Mapping[str, Any] | None = None) -> Any:
        """Return the value of a column, or None where the run has none.

        The key is looked up in this order: axis of the run, field of FIELDS, label of `shown`, `max:KEY` or `min:KEY`
        (largest or smallest value of a metric), `metric:KEY` (its newest value), config key, newest value of a metric.

        axes  the axes of another matrix position that has this run; default: the run's own
        """
        position = self.entry.axes if axes is None else axes
        if key in position:
            return position[key]
        if key in FIELDS:
            return FIELDS[key](self)
        if key in self.shown:
            return self._newest(self.shown[key])
        if key.startswith(("max:", "min:")):
            values = [value for value in self._series(key[4:]).values() if not math.isnan(value)]
            return (max if key.startswith("max:") else min)(values, default=None)
        if key.startswith(METRIC):
            return self._newest(key.removeprefix(METRIC))
        value = self.config_value(key)
        return self._newest(key) if value is None else value

    def config_value(self, key: str) -> Any:
        """Return the value of a dotted config key, and for a group (`task`) its name; None if the config lacks it."""
        value: Any = self._config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value.get("name") if isinstance(value, Mapping) else value

    def config_keys(self) -> list[str]:
        """Return the dotted keys of the run's config, groups first."""
        from plat.spec.composition.schema import leaves

        keys = list(leaves(dict(self._config)))
        return [*(key.removesuffix(".name") for key in keys if key.endswith(".name")), *keys]

    def as_json(self) -> dict[str, Any]:
        """Return "axes" and every key of FIELDS."""
        return {"axes": self.entry.axes, **{key: fact(self) for key, fact in FIELDS.items()}}

    def text(self, key: str) -> Any:
        """Return the value of a column as a table shows it: "12.5 %", "2.5 h", or a number of four digits."""
        value = self.value(key)
        if value is None:
            return None
        if key in SHARES or (key in self.shown and key not in self.entry.axes):
            return percent(value)
        if key in ("seconds", "cpu_seconds", "age"):
            return duration(value)
        if isinstance(value, float):
            return float(f"{value:.4g}")
        return one_line(value) if isinstance(value, str) else value

    def best(self) -> float | None:
        """Return the peak of the headline metric: as in the result, else of the logged curve; None without a value."""
        recorded = (self._result.get("summary") or {}).get("peak_success")
        if isinstance(recorded, float):
            return recorded
        peak = peak_of(self.curve(headline_of(self._meta)))
        return None if peak is None else peak[1]

    def own_metric(self) -> str:
        """Return `script.metric` of the run with its newest value, e.g. `val_loss 0.3123`; "" if it has none."""
        name = own_metric(self._config)[0]
        return measured(name, self._newest(name)) if name else ""

    def seconds(self) -> float | None:
        """Return the seconds of all attempts, for a running one since its start; None if the run was never started."""
        if "wall" in self._result:
            return float(self._result["wall"])
        attempts = self.paths.attempts()
        walls = [float((read_outcome(attempt) or {}).get("wall") or 0.0) for attempt in attempts]
        if self.entry.state.state == RunStatus.RUNNING and attempts and not attempts[-1].outcome.exists():
            began = read_attempt_meta(attempts[-1]).get("time")
            walls.append(max(0.0, time.time() - began) if isinstance(began, int | float) else 0.0)
        return sum(walls) if walls else None

    def usage(self) -> dict[str, Any]:
        """Return what a done run used (see `plat.words.usage`); {} for any other, and without a record."""
        return self._result.get("usage") or {}

    @cached_property
    def shown(self) -> Mapping[str, str]:
        """Label -> metric that the run's trainer shows beside its success."""
        return shown_metrics(self._meta.get("trainer"))

    @property
    def files(self) -> list[str]:
        """Names of the experiment and search files that have asked for the run."""
        return list(self._meta.get("experiments") or ())

    @cached_property
    def _result(self) -> dict[str, Any]:
        return (read_result(self.paths) or {}) if self.entry.state.state == RunStatus.DONE else {}

    @cached_property
    def _meta(self) -> dict[str, Any]:
        return load_meta(self.paths) or {}

    @cached_property
    def _config(self) -> Mapping[str, Any]:
        """Resolved config; empty where its file is missing or cannot be read."""
        if self.entry.config is not None:
            return self.entry.config
        try:
            return load_config(self.paths, self._meta)
        except HomeError:
            return {}

    @cached_property
    def _metrics(self) -> dict[str, dict[int, float]]:
        """Metric -> step -> value, for all values that count; for an unfinished run also those of the newest attempt.

        Empty for a done run with damaged events that the store does not have; a warning on stderr names the run.
        """
        if self._stored is not None and (stored := metrics_of(self._home, self._stored)) is not None:
            return stored
        if self.entry.state.state == RunStatus.DONE and (problem := spool_damage(self.paths)):
            tell(f"warning: {self.entry.name} is damaged: {problem} ({problem.fix})")
            return {}
        series: dict[str, dict[int, float]] = {}
        for metric in run_history(self.paths, uncovered=True)[0]:
            series.setdefault(metric.key, {})[metric.step] = metric.value
        return series

    def _series(self, key: str) -> dict[int, float]:
        return self._metrics.get(key, {})

    @cached_property
    def _stored(self) -> StoredRun | None:
        """The run in the store; None unless it is done and there."""
        return stored_run(self._home, self.entry.id) if self.entry.state.state == RunStatus.DONE else None

    @cached_property
    def _last(self) -> dict[str, float]:
        """Metric -> newest value."""
        if self._stored is not None and (stored := last_values(self._home, self._stored)) is not None:
            return stored
        return {key: values[max(values)] for key, values in self._metrics.items()}

    def _newest(self, key: str) -> float | None:
        return self._last.get(key)

    def metric_names(self) -> list[str]:
        """Return the names of the metrics that the run has logged, sorted."""
        return sorted(self._last)

    def curve(self, key: str) -> list[tuple[int, float]]:
        """Return (step, value) of one metric, in the order of steps."""
        return sorted(self._series(key).items())


FIELDS: dict[str, Callable[[RunFacts], Any]] = {
    "run": lambda facts: facts.entry.name,
    "id": lambda facts: facts.entry.id,
    "state": lambda facts: facts.entry.state.state,
    "outcome": lambda facts: facts.entry.state.outcome,  # of the run, or of its last attempt
    "attempts": lambda facts: len(facts._result.get("attempts") or ()) or facts.entry.state.attempt,
    "iteration": lambda facts: facts.entry.state.step,  # the newest
    "step": lambda facts: facts.entry.state.step,  # the same, as scripts call it
    "iterations": lambda facts: facts.entry.state.iterations,
    "success": lambda facts: facts.entry.state.success,  # the newest value of the headline metric
    "best": RunFacts.best,
    "seconds": RunFacts.seconds,
    "cpu_seconds": lambda facts: facts.usage().get("cpu_seconds"),
    "gpu_percent": lambda facts: facts.usage().get("gpu_percent"),
    "kwh": lambda facts: Usage.of(facts.usage()).kwh if facts.usage() else None,
    "age": lambda facts: facts.entry.state.age,  # seconds since the last sign of life
    "reason": lambda facts: facts.entry.state.reason or None,  # why the last attempt ended
    "trainer": lambda facts: facts._meta.get("trainer"),
    "files": lambda facts: " ".join(facts.files) or None,  # experiment files that ask for it
}
