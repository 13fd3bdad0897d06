"""Join the runs an experiment asks for with their results in the store. A run without a result stays, with the reason.

results = Results.of(frames, experiment)
for run in results.runs:  run.seed, run.axis("task"), run.missing    # "" or "not run", "failed:oom", "unfinished"
results.positions                                                    # as runs, one per position of the matrix
steps, values = results.curve(run.id, SUCCESS)
results.instances(run.id, ("heldout_peak",), role="peak")            # 0/1 per instance, or None
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from plat.errors import SpecError
from plat.store.mlflow.run_tags import clean_key
from plat.suggest import nearest
from plat.units import counted
from plat.words.metric_names import SUCCESS
from plat.words.outcomes import is_result
from plat_analysis.shown_text import printable, shortened
from plat_analysis.statistics.replicates import Replicate

if TYPE_CHECKING:
    import pandas as pd

    from plat.spec.expansion.experiment import Experiment
    from plat.spec.expansion.run import Run
    from plat.store.mlflow.frames import Frames

NAMED = 8  # metrics in a sentence
Curve = tuple[NDArray[np.int64], NDArray[np.float64]]
EMPTY: Curve = (np.array([], np.int64), np.array([], np.float64))


@dataclass(frozen=True)
class RunView:
    """Hold one wanted run.

    run      the run with its config
    outcome  how its last attempt ended; None if it is not in the store or has not ended
    missing  why it has no result, e.g. `not run` or `failed:oom`; "" if it has one
    facts    its row of the store's frame of runs, without the columns `param.*`; {} if the store does not have it
    axes     axis -> value, as in the experiment file
    """

    run: Run
    outcome: str | None
    missing: str
    facts: dict[Any, Any]
    axes: dict[str, Any]

    @property
    def id(self) -> str:
        return self.run.id

    def measures_success(self, key: str) -> bool:
        """Return True if a metric is the success of this run: SUCCESS, or its trainer's headline metric."""
        return key in (SUCCESS, self.run.headline)

    @property
    def seed(self) -> Any:
        return self.axes.get("seed", self.run.config.get("seed", 0))

    @property
    def build(self) -> Any:
        """Return the build of the base model the run started from (`model.base.seed`), or None without builds."""
        if "model.base.seed" in self.axes:
            return self.axes["model.base.seed"]
        base = (self.run.config.get("model") or {}).get("base")
        return base.get("seed") if isinstance(base, dict) else None

    @property
    def replicate(self) -> Replicate:
        """Return build and seed, which identify the run within its cell."""
        return Replicate(self.build, self.seed)

    def axis(self, name: str) -> str:
        """Return the value of an axis as text (see `spell`).

        For a name that is no axis, return the value of that config key, or the `name` of that config group. Raises
        SpecError if the run has none of these.
        """
        if name in self.axes:
            return spell(self.axes[name])
        value: Any = self.run.config
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, dict):
            value = value.get("name")
        if value is None:
            raise SpecError(
                f"the report asks for axis {name!r}, which run {self.run.name} does not have",
                fix=f"one of: {', '.join(sorted(self.axes))}",
            )
        return spell(value)

    def tag(self, name: str) -> str | None:
        """Return a tag of the run in the store, e.g. `plat.trainer`; None if the run does not have it."""
        value = self.facts.get(f"tag.{name}")
        return None if value is None or value != value else str(value)

    def number_tag(self, name: str) -> float | None:
        """Return a tag as a number; None if the run does not have it, or it is not a number."""
        try:
            return float(self.tag(name) or "")
        except ValueError:
            return None


class Results:
    """Index the frames by run; lookups are cached.

    runs       one `RunView` for each run of the experiment, with or without a result
    positions  the same views, one for each position of the matrix, with the axes of that position
    """

    def __init__(self, frames: Frames | None, experiment: Experiment) -> None:
        self.experiment, self._frames = experiment, frames  # kept alive: their ids are the key of `_SHARED`
        self._metrics: pd.DataFrame | None = None if frames is None else frames.metrics
        known: dict[str, dict[Any, Any]] = {}
        gone: frozenset[str] = frozenset()
        if frames is not None:
            columns = [name for name in frames.runs.columns if not str(name).startswith("param.")]  # configs have these
            known = {str(row["run_id"]): row for row in frames.runs[columns].to_dict("records")}
            gone = frames.deleted
        self.runs = [_view(run, known.get(run.id), run.id in gone) for run in experiment.runs]
        by_id = {run.id: run for run in self.runs}
        self._headlines = {run.id: run.headline for run in experiment.runs}
        self.positions = [replace(by_id[run_id], axes=dict(axes)) for axes, run_id in experiment.cells]
        self._curves: dict[str, dict[str, Curve]] = {}
        self._diverged: dict[tuple[str, str], int] = {}
        self._keys: tuple[NDArray[np.int32], dict[str, int]] | None = None  # see `_numbered`
        self._tables: dict[tuple[str, str], list[tuple[int, Any]]] = {}
        if frames is None:
            return
        parts = (frames.tables[name] for name in ("run_id", "name", "step", "data"))
        for run_id, name, step, data in zip(*parts, strict=True):
            self._tables.setdefault((str(run_id), str(name)), []).append((int(step), data))

    @classmethod
    def of(cls, frames: Frames, experiment: Experiment) -> Results:
        """Return the results of these two objects. Later calls return the same object while a caller holds it."""
        key = (id(frames), id(experiment))
        known = _SHARED.get(key)
        if known is None:
            known = _SHARED[key] = cls(frames, experiment)
        return known

    @property
    def headlines(self) -> list[str]:
        """Return the headline metrics of the runs, each once."""
        return list(dict.fromkeys(self._headlines.values()))

    @cached_property
    def success_is_share(self) -> bool:
        """Return False if a run's success has a value outside of [0, 1]: a script may count something by this name."""
        curves = (self.curve(run.id, SUCCESS)[1] for run in self.runs)
        return all(values.min() >= 0.0 and values.max() <= 1.0 for values in curves if len(values))

    @property
    def step_name(self) -> str:
        """Return what the x axis of a curve is: the `script.step` of a script or `step`, else `training iteration`."""
        scripts = [
            run.run.config.get(run.run.trainer) for run in self.runs if run.run.trainer in ("script", "recorded")
        ]
        names = {str(script.get("step") or "step") for script in scripts if isinstance(script, dict)}
        return ", ".join(sorted(names)) or "training iteration"

    @property
    def heading(self) -> str:
        """Return the title of an artifact of this experiment file: `Figure 9 · Success over training`."""
        return " · ".join(filter(None, [self.experiment.source, self.experiment.title]))

    def release(self) -> None:
        """Free the measurements: `curve` and `table` are empty from then on. `runs` and `positions` stay."""
        _SHARED.pop((id(self._frames), id(self.experiment)), None)
        self._frames = self._metrics = self._keys = None
        self._curves, self._tables = {}, {}

    @classmethod
    def planned(cls, experiment: Experiment) -> Results:
        """Return every wanted run of an experiment without results, as before anything has run."""
        return cls(None, experiment)

    def curve(self, run_id: str, key: str) -> Curve:
        """Return (steps, values) of a metric, by step and without NaN; empty arrays if the run never logged it.

        The key SUCCESS is the headline metric of the run's trainer.
        """
        if self._metrics is None:
            return EMPTY
        key = self._headlines[run_id] if key == SUCCESS else key
        if key not in self._curves:
            codes, numbers = self._numbered(self._metrics)
            rows = self._metrics.iloc[np.flatnonzero(codes == numbers.get(key, -1))]
            self._curves[key] = {}
            for run, part in rows.sort_values(["run_id", "step"]).groupby("run_id", sort=False):
                steps, values = part["step"].to_numpy(np.int64), part["value"].to_numpy(np.float64)
                is_number = ~np.isnan(values)
                self._curves[key][str(run)] = steps[is_number], values[is_number]
                if not np.isfinite(values[-1]):
                    finite = np.flatnonzero(np.isfinite(values))
                    self._diverged[str(run), key] = int(steps[finite[-1] + 1] if len(finite) else steps[0])
        return self._curves[key].get(run_id, EMPTY)

    def diverged(self, run_id: str, key: str) -> int | None:
        """Return the step from which a metric is NaN or infinite to its end; None if its last value is a number."""
        self.curve(run_id, key)
        return self._diverged.get((run_id, self._headlines[run_id] if key == SUCCESS else key))

    def _numbered(self, metrics: pd.DataFrame) -> tuple[NDArray[np.int32], dict[str, int]]:
        """Return a number for each row's key, and key -> number; cached, because comparing texts is slow."""
        import pandas as pd

        if self._keys is None:
            codes, names = pd.factorize(metrics["key"])
            self._keys = codes.astype(np.int32), {str(name): code for code, name in enumerate(names)}
        return self._keys

    def metric(self, key: str) -> str:
        """Return the key, or for SUCCESS the headline metrics of the runs, joined by commas."""
        return ", ".join(self.headlines) if key == SUCCESS else key

    def unlogged(self, keys: Iterable[str]) -> list[str]:
        """Return a sentence for each key that no run logged, with what they logged; [] if no run has a result."""
        if self._metrics is None or all(run.missing for run in self.runs):
            return []
        logged = self._numbered(self._metrics)[1]
        return [_unlogged(key, logged) for key in dict.fromkeys(keys) if key != SUCCESS and key not in logged]

    def logged(self) -> list[str]:
        """Return the names of all metrics that a run of the experiment logged, sorted."""
        if self._metrics is None:
            return []
        ids = {run.id for run in self.runs}
        return sorted(set(self._metrics["key"][self._metrics["run_id"].isin(ids)]))

    def last_step(self, run_id: str) -> int | None:
        """Return the newest step at which validation was measured, or None."""
        steps, _ = self.curve(run_id, SUCCESS)
        return int(steps[-1]) if len(steps) else None

    def table(self, run_id: str, name: str) -> list[tuple[int, Any]]:
        """Return (step, data) of every entry of a logged table, by step; [] if the run logged none."""
        return sorted(self._tables.get((run_id, name), ()), key=lambda entry: entry[0])

    def warnings(self) -> list[str]:
        """Return a sentence for each of trainer, identity scheme and numerics in which the runs differ."""
        kinds = {
            "plat.trainer": "trainers, or versions of one",
            "plat.identity_scheme": "identity schemes",
            "plat.numerics": "numerics",
        }
        return [
            f"runs of several {kind} are compared here: {counts}; a difference between them may come from that"
            for tag, kind in kinds.items()
            if (counts := self._several(tag))
        ]

    def _several(self, tag: str) -> str:
        """Return `embedded 1.0 (3 runs), embedded 2.0 (1 run)`; "" where all runs that have the tag agree."""
        values = Counter(value for run in self.runs if (value := run.tag(tag)))
        if len(values) < 2:
            return ""
        return ", ".join(f"{value} ({counted(count, 'run')})" for value, count in sorted(values.items()))

    def instances(
        self, run_id: str, tables: Sequence[str], *, step: int | None = None, role: str | None = None
    ) -> NDArray[np.float64] | None:
        """Return the success of each instance, shape (instances,), or None if no entry matches.

        tables  names of logged tables. The last matching entry of the first table with one counts
        step    the step of the entry (default: any)
        role    the role of the checkpoint: `base`, `peak` or `final` (default: any). An entry without one matches all
        """
        for table in tables:
            for at, data in reversed(self._tables.get((run_id, table), ())):
                if not isinstance(data, dict) or not data.get("success"):
                    continue
                if step in (None, at) and role in (None, data.get("role", role)):
                    return np.asarray(data["success"], np.float64)
        return None


_SHARED: WeakValueDictionary[tuple[int, int], Results] = WeakValueDictionary()


def spell(value: Any) -> str:
    """Return an axis value as printable text; `1` and `1.0` are both `1`, different numbers have different texts."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            short = f"{value:g}"
        except OverflowError:  # a whole number beyond the largest float
            return shortened(str(value), 40)
        return short if float(short) == value or value != value else str(value)
    return printable(value)


def replicate_order(replicate: Replicate) -> tuple[tuple[int, float, str], ...]:
    """Return the sort key, build before seed: numbers by value, then anything else by its text."""
    return tuple((0, part, "") if isinstance(part, int | float) else (1, 0, str(part)) for part in replicate)


def _unlogged(key: str, logged: Iterable[str]) -> str:
    """Return that no run logged a metric, and which ones they logged."""
    names = sorted(logged)
    if (old := clean_key(key)) in names:  # a run of now may have a metric of this name, so it is not taken for the key
        return f"No run logged {key!r}: did you mean {old!r}, as plat 0.4 stored that name?"
    if near := nearest(key, names):
        return f"No run logged {key!r}: did you mean {near!r}?"
    return f"No run logged {key!r}, but {', '.join(names[:NAMED])}{', ...' * (len(names) > NAMED)}."


def _view(run: Run, row: dict[Any, Any] | None, is_deleted: bool) -> RunView:
    if row is None:
        return RunView(run, None, "deleted in MLflow" if is_deleted else "not run", {}, run.axes)
    outcome = row.get("outcome")
    if not isinstance(outcome, str) or not outcome:  # NaN or None: running, or waiting to be resumed
        return RunView(run, None, "unfinished", row, run.axes)
    return RunView(run, outcome, "" if is_result(outcome) else outcome, row, run.axes)
