"""Measure what the filter saves of a step of PPO with verl: every prompt, and half of them, in one process by turns.

The paper's Table 5 prints 26 to 41 % less time a step. The prompts that are kept are drawn at random, because rewards
of random weights have no spread; the cost does not depend on which are kept.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

from trainers.embedded import NoIO

from plat.spec.expansion.experiment import build_run, config_object
from plat_rl.verl.machines.private_cluster import running_trainer
from plat_rl.verl.settings.models import model_files
from plat_rl.verl.spec import VerlTrainer
from plat_rl.verl.train import _Run
from steps.step import Step
from steps.verl_options import MEMORY, options

ROUNDS = 3
PARTS = ("rollout", "update", "step")


class Quiet(NoIO):
    """A RunIO that keeps only metrics."""

    def status(self, text: str) -> None:
        print(text, flush=True)


def main() -> None:
    step = Step("verl_ppo")
    if all(f"round {number}" in step.measured for number in range(1, ROUNDS + 1)):
        return
    if step.unable(MEMORY, bfloat16=True):
        step.measure("start", dict, MEMORY, bfloat16=True)
        return
    chosen = [*options(step, "ppo", 1000, mi_every=0), "filter=random", "filter.value=0.5"]
    config = config_object(build_run(chosen), VerlTrainer())
    half, every = config.filter, replace(config.filter, value=1.0)
    io, started = Quiet(step.folder / "cache"), time.monotonic()
    files = model_files(config, io.cache)
    with running_trainer(config, files, io.status) as trainer:
        run = _Run(config, io, trainer, files)
        step.measure("start", lambda: {"seconds": time.monotonic() - started})
        iteration(run, every)  # warms up, in every process
        for number in range(1, ROUNDS + 1):
            order = (every, half) if number % 2 else (half, every)
            step.measure(f"round {number}", partial(both, run, order, every))
        rounds = [step.measured[f"round {number}"] for number in range(1, ROUNDS + 1)]
        step.measure("half of the prompts over every prompt", lambda: _ratios(rounds))


def iteration(run: Any, chosen: Any) -> dict[str, Any]:
    """Make one iteration with a filter; return the seconds of its parts."""
    run.config = replace(run.config, filter=chosen)
    run._iterate()
    metrics = run.book.io.metrics[-1]
    return {part: metrics[f"time/{part}"] for part in PARTS} | {"kept prompts": metrics["filter/kept_prompts"]}


def both(run: Any, order: tuple[Any, Any], every: Any) -> dict[str, Any]:
    """Make an iteration with every prompt and one with half of them."""
    return {("every prompt" if chosen is every else "half"): iteration(run, chosen) for chosen in order}


def _ratios(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    return {part: median(one["half"][part] / one["every prompt"][part] for one in rounds) for part in PARTS}


if __name__ == "__main__":
    main()
