"""Compare two base models by their success on the same held-out instances, those of `plat eval`.

The difference is paired by instance. Its 95 % interval is that of Agresti and Min (2005) for two dependent proportions:
Wald's interval with half a count added to each of the four cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat_rl.run_config import RunConfig

Z95 = 1.959964  # 97.5 % quantile of the normal distribution
AS_GOOD, WORSE, UNDECIDED = "as good", "worse", "undecided"


@dataclass(frozen=True)
class TaskComparison:
    """One task. Success rates and differences are shares (0 to 1); `difference` is rebuilt minus shipped."""

    task: str
    instances: int
    shipped: float
    rebuilt: float
    difference: float
    low: float
    high: float
    verdict: str


def compare(shipped: Path, rebuilt: Path, configs: Sequence[RunConfig], margin: float) -> list[TaskComparison]:
    """Play `eval.heldout` instances of each config's task with both bases, and return a comparison for each config."""
    results = []
    for config in configs:
        first, second = _successes(shipped, config), _successes(rebuilt, config)
        difference, low, high = paired_difference(first, second)
        results.append(
            TaskComparison(
                task=config.task.name,
                instances=len(first),
                shipped=sum(first) / len(first),
                rebuilt=sum(second) / len(second),
                difference=difference,
                low=low,
                high=high,
                verdict=verdict(low, high, margin),
            )
        )
    return results


def paired_difference(first: Sequence[int], second: Sequence[int]) -> tuple[float, float, float]:
    """Return the mean of second - first and its 95 % interval, for successes (0 or 1) on the same instances."""
    count = len(first)
    gained = sum(1 for before, after in zip(first, second, strict=True) if after > before)
    lost = sum(1 for before, after in zip(first, second, strict=True) if after < before)
    b, c, n = gained + 0.5, lost + 0.5, count + 2
    centre = (b - c) / n
    half = Z95 * math.sqrt(b + c - (b - c) ** 2 / n) / n
    return (gained - lost) / count, max(-1.0, centre - half), min(1.0, centre + half)


def verdict(low: float, high: float, margin: float) -> str:
    """Return `as good` if the interval [low, high] lies above -margin, `worse` if it lies below, else `undecided`."""
    return AS_GOOD if low > -margin else WORSE if high < -margin else UNDECIDED


def _successes(folder: Path, config: RunConfig) -> list[int]:
    from plat.trainer.api import State
    from plat_rl.embedded.evaluate import evaluate_checkpoint
    from plat_rl.embedded.transformer import hf

    _, flat = hf.load(folder)
    played: dict[str, Any] = evaluate_checkpoint(
        config, State({"actor.parameters": flat}), folder, {"split": "heldout", "instances": config.eval.heldout}
    )
    return list(played["results"]["success"])
