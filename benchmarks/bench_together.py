"""Would it pay on a CPU to train several runs in one process, joined in their operations? A bound on what it can save.

    python benchmarks/bench_together.py

Five runs that are one operation where five were started save at most what starting an operation costs. So five runs
one after another are held against one run whose batches are five times as large: the same arithmetic in as few
operations as five joined runs would need, even with one matrix of weights where those have five. Phases in which the
larger batch is slower, because it leaves the cache, count as if they were not joined. No scheme that joins the
operations of five runs of this code can save more than that.

Both are timed by turns in one process, by the CPU time of its one thread; of each phase the median counts. Phases are
weighted as they occur in a run of scale=laptop. Cross-scoring, a hundredth of a run, is left out.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
import torch
from trainers.embedded import NoIO

from plat.spec.experiment import build_run, config_object
from plat.trainer.embedded import generate
from plat.trainer.embedded.spec import SPEC
from plat.trainer.embedded.train import _Run

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
RUNS, AIM = 5, 2.0  # five runs for the price of two
ROUNDS = 3  # in each, five iterations of a run and one of the run with the larger batches
PROBE = 128  # reasonings of a probe here; a run's has 512, and generates them 128 at a time, too
PER_RUN = {"rollout": 30, "update": 30, "evaluation": 9 + 3, "probe": 5 * 4}  # of scale=laptop, with `PROBE`
CASES = (("qwen2.5-3b", "sokoban"), ("qwen2.5-3b", "frozenlake"), ("qwen2.5-0.5b", "frozenlake"))

Value = TypeVar("Value")


class Timed:
    """A run whose batches are `factor` times as large as those of scale=laptop, and the CPU time of its phases."""

    def __init__(self, model: str, task: str, factor: int, cache: Path) -> None:
        overrides = [
            "scale=laptop",
            "algorithm=grpo",
            f"model={model}",
            f"task={task}",
            f"train.prompts={8 * factor}",
            f"eval.instances={256 * factor}",
            "eval.heldout=0",
            f"mi.probe={PROBE * factor}",
        ]
        self.run = _Run(config_object(build_run(overrides), SPEC), NoIO(cache))
        self.rows_at_once = generate._ROWS_AT_ONCE * factor
        self.forget()

    def forget(self) -> None:
        """Start timing anew."""
        self.seconds: dict[str, list[float]] = {name: [] for name in PER_RUN}

    def iterate(self, step: int, evaluates: bool) -> None:
        """One iteration without a filter, and perhaps an evaluation and a probe after it."""
        rows_at_once, generate._ROWS_AT_ONCE = generate._ROWS_AT_ONCE, self.rows_at_once
        run, policy = self.run, self.run.learner.policy()
        batch = self._timed("rollout", lambda: run.collector.rollout(policy, step))
        self._timed("update", lambda: run._update(batch, np.arange(batch.trajectories), step))
        if evaluates:
            self._timed("evaluation", run.validate)
            self._timed("probe", lambda: run.probe(step, with_null=False))
        generate._ROWS_AT_ONCE = rows_at_once

    def _timed(self, phase: str, work: Callable[[], Value]) -> Value:
        started = time.process_time()
        value = work()
        self.seconds[phase].append(time.process_time() - started)
        return value


def measure(model: str, task: str, cache: Path) -> None:
    """Print what five runs cost, in runs, if they were joined as well as can be; phase by phase, and the whole."""
    alone, joined = (Timed(model, task, factor, cache) for factor in (1, RUNS))
    alone.iterate(1, evaluates=True)
    joined.iterate(1, evaluates=True)
    gc.collect()
    gc.freeze()
    alone.forget()
    joined.forget()
    for first in range(2, 2 + ROUNDS * RUNS, RUNS):
        for step in range(first, first + RUNS):
            alone.iterate(step, evaluates=step == first)
        joined.iterate(first, evaluates=True)
    single, price = 0.0, 0.0  # CPU seconds: of one run, of five runs that are joined
    for phase, times in PER_RUN.items():
        own, five = median(alone.seconds[phase]), median(joined.seconds[phase])
        single += times * own
        price += times * min(five, RUNS * own)
        print(f"{model}, {task}, {phase}: {1e3 * own:.0f} ms; five times the batch: {five / own:.2f} times as long")
    figure = {
        "name": f"five runs of {model} on {task}, joined as well as can be",
        "value": round(price / single, 2),
        "unit": "runs' time",
        "against": f"one after another: 5; the aim: {AIM:.0f}",
        "ratio": RUNS * single / price,
        "ok": price / single <= AIM,
    }
    print("BENCH " + json.dumps(figure), flush=True)


def main() -> None:
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ENVIRONMENT)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for model, task in CASES:
            measure(model, task, Path(folder))


if __name__ == "__main__":
    main()
