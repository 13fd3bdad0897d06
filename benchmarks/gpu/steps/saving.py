"""Measure what the filter saves of an iteration of the embedded trainer at 494 M parameters, by the share it keeps.

One run takes turns between shares of .25, .5, .75 and 1 of the prompts, one iteration each, in a new random order for
every round. Prompts are kept at random: rewards of random weights have no spread to rank them by, and the cost does not
depend on which are kept. A ratio is the median over rounds of (seconds at this share / seconds with every prompt).
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

from trainers.embedded import quiet_run

from steps.rate import NEEDED, options, synchronize
from steps.step import Step

SHARES = (1.0, 0.75, 0.5, 0.25)
SECONDS = {False: 35.0, True: 10.0}  # of the rounds, by --tiny
SIZE = "494 M"


def main() -> None:
    step = Step("saving")
    for precision in ("bfloat16", "float32"):
        work = partial(saving, step, precision, SECONDS[step.tiny] / 2)
        step.measure(precision, work, NEEDED[SIZE], bfloat16=precision == "bfloat16")


def saving(step: Step, precision: str, seconds: float) -> dict[str, Any]:
    """Return seconds of rollout, update and whole iteration at each share, and the ratios to keeping every prompt."""
    run = quiet_run((*options(step, SIZE, precision), "filter=random"), step.folder / "cache")
    filters = {share: replace(run.config.filter, value=share) for share in SHARES}
    run._iterate()  # warms up
    taken: dict[float, list[dict[str, float]]] = {share: [] for share in SHARES}
    until, shuffle = time.monotonic() + seconds, random.Random(0)
    while not taken[1.0] or time.monotonic() < until:
        for share in shuffle.sample(SHARES, len(SHARES)):
            run.config = replace(run.config, filter=filters[share])
            synchronize(step)
            started = time.perf_counter()
            run._iterate()
            synchronize(step)
            metrics = run.book.io.metrics[-1]
            parts = {part: metrics[f"time/{part}"] for part in ("rollout", "update")}
            taken[share].append(
                {**parts, "iteration": time.perf_counter() - started, "kept": metrics["filter/kept_prompts"]}
            )
    result: dict[str, Any] = {"rounds": len(taken[1.0])}
    for share, rows in taken.items():
        for name in ("rollout", "update", "iteration"):
            ratios = [row[name] / whole[name] for row, whole in zip(rows, taken[1.0], strict=True)]
            result[f"{name}, {share:g}"] = {"seconds": median(row[name] for row in rows), "ratio": median(ratios)}
        result[f"kept prompts, {share:g}"] = rows[0]["kept"]
    return result


if __name__ == "__main__":
    main()
