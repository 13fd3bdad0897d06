"""Measure what the filter saves of an iteration of the embedded trainer at 494 M parameters, by the share it keeps.

One run takes turns between shares of .25, .5, .75 and 1 of the prompts, one iteration each, in another order for every
round. Prompts are kept at random: rewards of random weights have no spread to rank them by, and the cost does not
depend on which are kept. A ratio is the median over rounds of (seconds at this share / seconds with every prompt).
"""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

from trainers.embedded import quiet_run

from steps.rate import NEEDED, options, prepare, synchronize
from steps.step import Step

SHARES = (1.0, 0.5, 0.75, 0.25)
PRECISIONS = {"bfloat16": (3, SHARES), "float32": (2, SHARES[:2])}  # rounds, and the shares of a round
SIZE = "494 M"
PARTS = ("rollout", "update", "iteration")


def main() -> None:
    step = Step("saving")
    prepare(step)
    for precision, (most, shares) in PRECISIONS.items():
        names = [f"{precision}, round {number}" for number in range(1, most + 1)]
        if all(map(step.has, names)):
            continue
        if step.unable(NEEDED[SIZE], bfloat16=precision == "bfloat16"):
            step.measure(names[0], dict, NEEDED[SIZE], bfloat16=precision == "bfloat16")
            continue
        run = quiet_run((*options(step, SIZE, precision), "filter=random"), step.folder / "cache")
        run._iterate()  # warms up, in every process
        for number, name in enumerate(names):
            turned = shares[number:] + shares[:number]
            step.measure(name, partial(one_round, step, run, turned))
            if done := [step.measured[one] for one in names if step.has(one)]:
                step.measured[precision] = ratios(done, shares)
        step.keep()
        del run
        gc.collect()


def one_round(step: Step, run: Any, shares: tuple[float, ...]) -> dict[str, Any]:
    """Make an iteration at each share; return their seconds, and the number of prompts that were kept."""
    taken = {}
    for share in shares:
        run.config = replace(run.config, filter=replace(run.config.filter, value=share))
        synchronize(step)
        started = time.perf_counter()
        run._iterate()
        synchronize(step)
        metrics = run.book.io.metrics[-1]
        seconds = {part: metrics[f"time/{part}"] for part in ("rollout", "update")}
        seconds["iteration"] = time.perf_counter() - started
        taken[f"{share:g}"] = {**seconds, "kept": metrics["filter/kept_prompts"]}
    return taken


def ratios(rounds: list[dict[str, Any]], shares: tuple[float, ...]) -> dict[str, Any]:
    """Return the median seconds at each share, and the median ratio to keeping every prompt in the same round."""
    result: dict[str, Any] = {"rounds": len(rounds)}
    for share in (f"{share:g}" for share in shares):
        for part in PARTS:
            each = [one[share][part] / one["1"][part] for one in rounds]
            result[f"{part}, {share}"] = {"seconds": median(one[share][part] for one in rounds), "ratio": median(each)}
    return result


if __name__ == "__main__":
    main()
