"""The runs that are left, in groups: the time of each kind, and the resources that runs with GPUs ask for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from plat.planning.view import aligned
from plat.spec.composition.schema import select
from plat.spec.expansion.run import Run
from plat.trainer.resources import Resources
from plat.units import duration


@dataclass(frozen=True)
class Kind:
    """The runs left of one trainer, model and task.

    p50, p90  median and 90th percentile of the seconds left of one run, each as the mean over the runs that have an
              estimate; None until a similar run was measured here
    """

    trainer: str
    model: str
    task: str
    runs: int
    p50: float | None
    p90: float | None


@dataclass(frozen=True)
class Asked:
    """Runs of one trainer, model, task and algorithm that ask for the same resources.

    gpus, memory_mb   of each node; memory 0: not stated
    minutes           wall-clock limit for the scheduler; 0: not stated
    """

    trainer: str
    model: str
    task: str
    algorithm: str
    nodes: int
    gpus: int
    memory_mb: int
    minutes: int
    runs: int


def kinds_of(runs: Iterable[tuple[Run, tuple[float, float] | None]]) -> list[Kind]:
    """Group runs and their (p50, p90) seconds into kinds, in the order of the runs."""
    groups: dict[tuple[str, ...], list[tuple[float, float] | None]] = defaultdict(list)
    for run, spread in runs:
        groups[_names(run, "model", "task")].append(spread)
    kinds = []
    for (trainer, model, task), spreads in groups.items():
        known = [spread for spread in spreads if spread is not None]
        p50, p90 = (fmean(spread[part] for spread in known) if known else None for part in (0, 1))
        kinds.append(Kind(trainer, model, task, len(spreads), p50, p90))
    return kinds


def kind_lines(kinds: Sequence[Kind]) -> list[str]:
    """Return the time of a run of each kind, as a table; [] if no run is left."""
    table = [["trainer", "model", "task", "runs", "p50", "p90"]]
    for kind in kinds:
        times = ("?" if value is None else duration(value) for value in (kind.p50, kind.p90))
        table.append([kind.trainer, kind.model, kind.task, str(kind.runs), *times])
    return ["time of a run that is left:", *aligned(table)] if kinds else []


def asked_of(runs: Iterable[Run]) -> list[Asked]:
    """Return what these runs ask for, in their order. Runs without GPUs are left out."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for run in runs:
        if run.resources.get("gpus"):
            needed = Resources.of(run.resources)
            names = _names(run, "model", "task", "algorithm")
            counts[*names, needed.nodes, needed.gpus, needed.memory_mb, needed.minutes] += 1
    return [Asked(*facts, number) for facts, number in counts.items()]  # type: ignore[call-arg]


def asked_lines(asked: Sequence[Asked]) -> list[str]:
    """Return the table as lines; [] without GPUs. The last line has the total GPU-hours if all minutes are stated."""
    table = [["trainer", "model", "task", "algorithm", "runs", "GPUs", "memory", "at most"]]
    for row in asked:
        gpus = f"{row.nodes} x {row.gpus}" if row.nodes > 1 else str(row.gpus)
        memory = f"{row.memory_mb / 1024:.0f} GiB" if row.memory_mb else "?"
        time = duration(60.0 * row.minutes) if row.minutes else "?"
        table.append([row.trainer, row.model, row.task, row.algorithm, str(row.runs), gpus, memory, time])
    lines = ["each run with GPUs asks for:", *aligned(table)] if asked else []
    if asked and all(row.minutes for row in asked):
        hours = sum(row.runs * row.nodes * row.gpus * row.minutes / 60 for row in asked)
        lines.append(f"  together at most {hours:,.0f} GPU-hours")
    return lines


def _names(run: Run, *groups: str) -> tuple[str, ...]:
    """Return the run's trainer, and the name of its choice in each of these config groups."""
    return (run.trainer, *(str(select(run.config, f"{group}.name") or "") for group in groups))
