"""What runs with GPUs ask for, as a table: their trainer says it before any of them was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from plat.spec.runs import Run
from plat.spec.schema import select
from plat.trainer.resources import Resources
from plat.units import duration


@dataclass(frozen=True)
class Asked:
    """Runs of one trainer, model, task and algorithm that ask for the same.

    gpus, memory_mb   of each node; memory 0: not stated
    minutes           the limit that a scheduler is given; 0: not stated
    """

    trainer: str
    model: str
    task: str
    algorithm: str
    nodes: int
    gpus: int
    memory_mb: int
    minutes: int
    runs: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def asked_of(runs: Iterable[Run]) -> list[Asked]:
    """What these runs ask for, in the order of the runs; those without GPUs are left out."""
    counts: Counter[Asked] = Counter()
    for run in runs:
        if not run.resources.get("gpus"):
            continue
        needed = Resources.of(run.resources)
        model, task, algorithm = (
            str(select(run.config, f"{group}.name") or "") for group in ("model", "task", "algorithm")
        )
        counts[
            Asked(run.trainer, model, task, algorithm, needed.nodes, needed.gpus, needed.memory_mb, needed.minutes)
        ] += 1
    return [Asked(**{**asdict(asked), "runs": count}) for asked, count in counts.items()]


def asked_lines(asked: Sequence[Asked]) -> list[str]:
    """The table as text, and the GPU-hours of all runs together where their minutes are stated; [] without GPUs."""
    if not asked:
        return []
    header = ("trainer", "model", "task", "algorithm", "runs", "GPUs", "memory", "at most")
    table = [list(header)]
    for row in asked:
        gpus = f"{row.nodes} x {row.gpus}" if row.nodes > 1 else str(row.gpus)
        memory = f"{row.memory_mb / 1024:.0f} GiB" if row.memory_mb else "?"
        time = duration(60.0 * row.minutes) if row.minutes else "?"
        table.append([row.trainer, row.model, row.task, row.algorithm, str(row.runs), gpus, memory, time])
    widths = [max(len(line[index]) for line in table) for index in range(len(header))]
    rows = ("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in table)
    lines = ["each run with GPUs asks for:", *(f"  {row}" for row in rows)]
    if all(row.minutes for row in asked):
        hours = sum(row.runs * row.nodes * row.gpus * row.minutes / 60 for row in asked)
        lines.append(f"  together at most {hours:,.0f} GPU-hours")
    return lines
