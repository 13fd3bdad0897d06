"""The paper's pre-check (Table 8) of base models: Std/Mean of the reward variance, a sign that a filter will help.

It is, over prompts, the standard deviation of the rewards' spread over its mean. A run records it for its first batch,
which the base model plays, or for a separate batch with `train.precheck`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from statistics import fmean
from typing import Any

from plat.plain_files import open_regular
from plat.planning.view import aligned
from plat.spec.composition.schema import select
from plat.spec.expansion.run import Run
from plat.store.home import Home
from plat.store.many_runs import agreeing, flat_config
from plat.store.mlflow.run_tags import flatten
from plat.store.run_directory.paths import RunPaths, run_of
from plat.store.run_directory.spool import parse_line
from plat.trainer.api import PlanNote

METRIC = "rv_std_over_mean"
OF_ITS_OWN, FIRST_BATCH = f"precheck/{METRIC}", f"rollout/{METRIC}"  # logged at step 0, and at step 1
GROUPS = ("trainer", "task", "model")
SAMPLING = ("group_size", "temperature", "context", "rendering")  # keys of `train` that change the rollouts
MEASURED = 5  # batches read per start
SHOWN = 12  # lines of the table
NAMED = ("task", "model")  # axes with a column already
READ = 2_000_000  # bytes of a run's events searched for the first batch


@dataclass(frozen=True)
class Precheck:
    """A base model on a task: the mean of Std/Mean over `batches` different batches.

    axes  what tells this start from the others of the plan, e.g. {"model.base.seed": "1"}
    """

    task: str
    model: str
    axes: dict[str, str]
    std_over_mean: float
    batches: int


def prechecks(home: Home, runs: Iterable[Run]) -> list[Precheck]:
    """Return the known pre-check values for the different starts among these runs, in the order of the runs.

    A start is what the base model's first batches depend on, except seeds: trainer, task, model and sampling options.
    A start is left out if the home has no value for it.
    """
    runs_of: dict[str, list[Run]] = {}
    for run in runs:
        if start := _start(run):
            runs_of.setdefault(json.dumps(start, sort_keys=True, default=str), []).append(run)
    starts = [_start(alike[0]) for alike in runs_of.values()]
    values = [_values(home, start, ids) for start, ids in zip(starts, agreeing(home, starts), strict=True)]
    return [
        Precheck(str(start.get("task.name")), str(start.get("model.name")), axes, fmean(measured), len(measured))
        for start, axes, measured in zip(starts, _axes_of([*runs_of.values()]), values, strict=True)
        if measured and isfinite(fmean(measured))  # where no reward varies, Std/Mean has no value
    ]


def plan_note(home: Home, runs: Sequence[Run]) -> PlanNote | None:
    """Return the known values as a note of a plan, or None if the home has none."""
    found = prechecks(home, runs)
    return PlanNote("prechecks", [asdict(row) for row in found], precheck_lines(found)) if found else None


def precheck_lines(found: Sequence[Precheck]) -> list[str]:
    """Return a table with a title and a line for each Precheck, SHOWN at most; [] if `found` is empty.

    The columns are the task, the model, the axes that tell starts apart, Std/Mean, and the number of batches.
    """
    if not found:
        return []
    axes = list(dict.fromkeys(axis for row in found for axis in row.axes))
    table = [["task", "model", *axes, "Std/Mean", "batches"]]
    for row in found[:SHOWN]:
        told = [row.axes.get(axis, "") for axis in axes]
        table.append([row.task, row.model, *told, f"{row.std_over_mean:.2f}", str(row.batches)])
    more = [f"  and {len(found) - SHOWN} more, which --json lists"] if len(found) > SHOWN else []
    title = "before training, spread of the reward variance over prompts (the paper's pre-check):"
    return [title, *aligned(table), *more]


def _start(run: Run) -> dict[str, Any]:
    """Return what the base model's first batches depend on, except seeds, as dotted keys; {} without a task."""
    if not isinstance(run.config.get("task"), Mapping):
        return {}
    groups = {name: run.config[name] for name in GROUPS if name in run.config}
    return flatten(groups) | {f"train.{key}": select(run.config, f"train.{key}") for key in SAMPLING}


def _axes_of(runs: Sequence[Sequence[Run]]) -> list[dict[str, str]]:
    """Return, for the runs of each start, the axes with one value per start that differ between starts."""
    values = [
        {axis: {str(run.axes.get(axis)) for run in alike} for axis in alike[0].axes if axis not in NAMED}
        for alike in runs
    ]
    telling = [
        axis
        for axis in dict.fromkeys(axis for of_start in values for axis in of_start)
        if all(len(of_start.get(axis, ())) == 1 for of_start in values)
        and len({min(of_start[axis]) for of_start in values}) > 1
    ]
    return [{axis: min(of_start[axis]) for axis in telling} for of_start in values]


def _values(home: Home, start: Mapping[str, Any], ids: Sequence[str]) -> list[float]:
    """Return up to MEASURED distinct values of runs with this start. Runs with the same seed share a value."""
    values: set[float] = set()
    for run_id in ids:
        paths = home.run(run_id)
        config = flat_config(paths)
        if config and all(config.get(key, value) == value for key, value in start.items()):
            value = _first_value(paths)
            values |= set() if value is None else {value}
        if len(values) == MEASURED:
            break
    return sorted(values)


def _first_value(paths: RunPaths) -> float | None:
    """Return the metric of the separate batch, else of the first batch; None if the first attempt recorded neither."""
    path = paths.attempt(1).events
    try:
        with open_regular(path) as file:
            lines = file.read(READ).split(b"\n")[:-1]
    except OSError:
        return None
    for line in lines:
        event = parse_line(line, run_of(path))
        if event.step > 1:
            return None
        for name in (OF_ITS_OWN, FIRST_BATCH):
            if name in event.metrics:
                return event.metrics[name]
    return None
