"""What the base models of a plan did before training, as runs of this home recorded it: Std/Mean of reward variance.

The paper (Table 8) reads it as a sign of whether a filter will help: over prompts, the standard deviation of the
rewards' spread over its mean. A run records it of its first batch, which the base model plays, or with
`train.precheck` of a batch of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from plat.plain_files import open_regular
from plat.spec.runs import Run
from plat.spec.schema import select
from plat.store.home import Home
from plat.store.index.configs import agreeing, flat_config
from plat.store.mlflow.spelling import flatten
from plat.store.run_directory.paths import RunPaths, run_of
from plat.store.run_directory.spool import parse_line

METRIC = "rv_std_over_mean"
OF_ITS_OWN, FIRST_BATCH = f"precheck/{METRIC}", f"rollout/{METRIC}"  # logged at step 0, and at step 1
GROUPS = ("trainer", "task", "model")
SAMPLING = ("group_size", "temperature", "context", "rendering")  # keys of `train` that change how the base model plays
MEASURED = 5  # batches of a start that are read
SHOWN = 12  # lines of the table
NAMED = ("task", "model")  # axes that have a column anyway
READ = 2_000_000  # bytes of a run's events within which the first batch must stand


@dataclass(frozen=True)
class Precheck:
    """A base model on a task: the mean of Std/Mean over `batches` different batches that it played.

    axes  what tells this start from the others of the plan, e.g. {"model.base.seed": "1"}
    """

    task: str
    model: str
    axes: dict[str, str]
    std_over_mean: float
    batches: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def prechecks(home: Home, runs: Iterable[Run]) -> list[Precheck]:
    """What is known of the starts of these runs, in their order. A start that no run of the home has is left out."""
    runs_of: dict[str, list[Run]] = {}
    for run in runs:
        if start := _start(run):
            runs_of.setdefault(json.dumps(start, sort_keys=True, default=str), []).append(run)
    starts = [_start(alike[0]) for alike in runs_of.values()]
    values = [_values(home, start, ids) for start, ids in zip(starts, agreeing(home, starts), strict=True)]
    return [
        Precheck(str(start.get("task.name")), str(start.get("model.name")), axes, fmean(measured), len(measured))
        for start, axes, measured in zip(starts, _axes_of([*runs_of.values()]), values, strict=True)
        if measured
    ]


def precheck_lines(found: Sequence[Precheck]) -> list[str]:
    """A table with a line for each start; [] where nothing is known."""
    if not found:
        return []
    axes = list(dict.fromkeys(axis for row in found for axis in row.axes))
    table = [["task", "model", *axes, "Std/Mean", "batches"]]
    for row in found[:SHOWN]:
        told = [row.axes.get(axis, "") for axis in axes]
        table.append([row.task, row.model, *told, f"{row.std_over_mean:.2f}", str(row.batches)])
    widths = [max(len(line[index]) for line in table) for index in range(len(table[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in table]
    more = [f"and {len(found) - SHOWN} more, which --json lists"] if len(found) > SHOWN else []
    title = "before training, spread of the reward variance over prompts (the paper's pre-check):"
    return [title, *(f"  {line}" for line in [*lines, *more])]


def _start(run: Run) -> dict[str, Any]:
    """What the base model's first batches are a function of, besides seeds, as dotted keys; {} without a task."""
    if not isinstance(run.config.get("task"), Mapping):
        return {}
    groups = {name: run.config[name] for name in GROUPS if name in run.config}
    return flatten(groups) | {f"train.{key}": select(run.config, f"train.{key}") for key in SAMPLING}


def _axes_of(runs: Sequence[Sequence[Run]]) -> list[dict[str, str]]:
    """For the runs of each start: the axes with one value in each start, and different ones over the starts."""
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
    """Different values of the first runs that have one. Equal values are of one batch, which runs of a seed share."""
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
    """The metric of the batch of its own, or else of the first batch; None where the first attempt recorded neither."""
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
