"""What the runs that are left cost, by trainer, model and task, as similar runs took here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from plat.spec.runs import Run
from plat.spec.schema import select


@dataclass(frozen=True)
class Kind:
    """The runs left of one trainer, model and task. `p50` and `p90` are seconds that one of them takes: the median and
    the 90th percentile of similar runs, None while none of them was measured here."""

    trainer: str
    model: str
    task: str
    runs: int
    p50: float | None
    p90: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def kinds_of(runs: Iterable[tuple[Run, tuple[float, float] | None]]) -> list[Kind]:
    """The kinds of some runs with what each of them is expected to take, in the order of the runs."""
    groups: dict[tuple[str, str, str], list[tuple[float, float] | None]] = defaultdict(list)
    for run, spread in runs:
        names = (str(select(run.config, key) or "") for key in ("model.name", "task.name"))
        groups[(run.trainer, *names)].append(spread)  # type: ignore[index]
    kinds = []
    for (trainer, model, task), spreads in groups.items():
        known = [spread for spread in spreads if spread is not None]
        p50, p90 = (fmean(spread[part] for spread in known) if known else None for part in (0, 1))
        kinds.append(Kind(trainer, model, task, len(spreads), p50, p90))
    return kinds
