"""The embedded trainer's steps, timed and profiled."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch.profiler import profile

from plat.spec.experiment import build_run, config_object
from plat.trainer.api import State
from plat.trainer.config import RunConfig
from plat.trainer.embedded.spec import SPEC
from plat.trainer.embedded.train import _Run
from trainers.operations import MatrixProduct, Operations
from trainers.workload import MULTI_TURN, QUIET, STEPS, WARM_UP, mean_of_faster_half

PRODUCTS = ("aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm")


class NoIO:
    """A RunIO that keeps only the clock."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.metrics: list[Mapping[str, float]] = []

    def facts(self, facts: Mapping[str, Any]) -> None: ...
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.metrics.append(metrics)

    def table(self, name: str, step: int, data: Any) -> None: ...
    def save(self, step: int, state: State, *, peak: bool = False, write_files: Any = None) -> None: ...
    def restore(self) -> None: ...
    def load_peak(self) -> None: ...
    def artifact(self, name: str, write_files: Any) -> None: ...
    def should_stop(self) -> bool:
        return False


def embedded_steps(overrides: tuple[str, ...], cache: Path, steps: int = STEPS) -> dict[str, float]:
    """Seconds a step, GFLOP a step, GFLOP/s of matrix products between the steps, and what the steps were like."""
    config: RunConfig = config_object(build_run([*QUIET, *overrides]), SPEC)
    io = NoIO(cache)
    run = _Run(config, io)
    operations = Operations(run.shape)
    for _ in range(WARM_UP):
        run._iterate()
    gc.collect()
    gc.freeze()  # as the worker server does
    operations.watch(run)
    times, products, product = [], [], MatrixProduct()
    product()
    for _ in range(steps):
        started = time.process_time()
        run._iterate()
        times.append(time.process_time() - started)
        products.append(product())
    timed = io.metrics[WARM_UP:]

    def mean(name: str) -> float:
        return float(np.mean([metrics.get(name, 0.0) for metrics in timed]))

    return {
        "seconds": mean_of_faster_half(times),
        "step": mean("time/step"),
        "peak": product.gflop / mean_of_faster_half(products),
        "gflop": float(operations.total) / steps / 1e9,
        "parameters": run.shape.parameters,
        "tokens": mean("rollout/response_tokens"),
        **{name: mean(f"time/{name}") for name in ("rollout", "cross_score", "update")},
    }


def share_outside_products(folder: Path, steps: int = 4) -> tuple[float, float]:
    """Share of the operations' time that is not in matrix products, and the number of operations of a step."""
    config: RunConfig = config_object(build_run([*QUIET, *MULTI_TURN]), SPEC)
    run = _Run(config, NoIO(folder))
    for _ in range(WARM_UP):
        run._iterate()
    with profile() as profiler:
        for _ in range(steps):
            run._iterate()
    events = profiler.key_averages()
    total = sum(event.self_cpu_time_total for event in events)
    products = sum(event.self_cpu_time_total for event in events if event.key in PRODUCTS)
    return 1 - products / total, sum(event.count for event in events) / steps
