"""Bound the time saved on a CPU by training several runs in one process with joined operations.

    python benchmarks/bench_together.py

Five runs one after another are compared with one run whose batches are five times as large: the same arithmetic in as
few operations as five joined runs would need. Phases in which the larger batch is slower count as not joined.

Both are timed alternately in one process, by the CPU time of its one thread; the median of each phase counts. Phases
are weighted as in a run of scale=laptop. Cross-scoring, a hundredth of a run, is left out.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
import torch
from measuring import figure, sized, use_one_thread
from trainers.embedded import quiet_run

from plat_rl.embedded import generate

RUNS, AIM = 5, 2.0  # five runs for the price of two
ROUNDS = min(3, sized(30))  # each has five iterations of the one run, and one of the run with larger batches
PROBE = 128  # reasonings of a probe here; a run has 512, also generated 128 at a time
PER_RUN = {"rollout": 30, "update": 30, "evaluation": 9 + 3, "probe": 5 * 4}  # of scale=laptop, with `PROBE`
CASES = (("qwen2.5-3b", "sokoban"), ("qwen2.5-3b", "frozenlake"), ("qwen2.5-0.5b", "frozenlake"))

ROWS_AT_ONCE = generate._ROWS_AT_ONCE
Value = TypeVar("Value")


class Timed:
    """A run whose batches are `factor` times as large as those of scale=laptop, and the CPU time of its phases."""

    def __init__(self, model: str, task: str, factor: int, cache: Path) -> None:
        sizes = (f"train.prompts={8 * factor}", f"eval.instances={256 * factor}", f"mi.probe={PROBE * factor}")
        names = ("scale=laptop", "algorithm=grpo", f"model={model}", f"task={task}", "eval.heldout=0")
        self.run = quiet_run((*names, *sizes), cache)
        self.rows_at_once = ROWS_AT_ONCE * factor
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def iterate(self, step: int, evaluates: bool) -> None:
        """Do one iteration without a filter; if `evaluates`, also an evaluation and a probe."""
        generate._ROWS_AT_ONCE = self.rows_at_once
        run, policy = self.run, self.run.learner.policy()
        batch = self._timed("rollout", lambda: run.collector.rollout(policy, step))
        self._timed("update", lambda: run._update(batch, np.arange(batch.trajectories), step))
        if evaluates:
            self._timed("evaluation", run.validate)
            self._timed("probe", lambda: run.probe(step, with_null=False))

    def _timed(self, phase: str, work: Callable[[], Value]) -> Value:
        started = time.process_time()
        value = work()
        self.seconds[phase].append(time.process_time() - started)
        return value


def measure(model: str, task: str, cache: Path) -> None:
    """Print the cost of five runs, joined as well as possible, in units of one run: for each phase, and in total."""
    alone, joined = (Timed(model, task, factor, cache) for factor in (1, RUNS))
    for timed in (alone, joined):  # the first iteration warms up
        timed.iterate(1, evaluates=True)
        timed.seconds.clear()
    gc.collect()
    gc.freeze()
    for first in range(2, 2 + ROUNDS * RUNS, RUNS):
        for step in range(first, first + RUNS):
            alone.iterate(step, evaluates=step == first)
        joined.iterate(first, evaluates=True)
    single, price = 0.0, 0.0  # CPU seconds of one run, and of five joined runs
    for phase, times in PER_RUN.items():
        own, five = median(alone.seconds[phase]), median(joined.seconds[phase])
        single += times * own
        price += times * min(five, RUNS * own)
        print(f"{model}, {task}, {phase}: {1e3 * own:.0f} ms; five times the batch: {five / own:.2f} times as long")
    name, ratio = f"five runs of {model} on {task}, joined as well as can be", RUNS * single / price
    against = f"one after another: 5; the aim: {AIM:.0f}"
    figure(name, price / single, "runs' time", against, ratio=ratio, ok=price / single <= AIM)


def main() -> None:
    use_one_thread()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for model, task in CASES[: sized(30)]:
            measure(model, task, Path(folder))


if __name__ == "__main__":
    main()
