"""Time and profile steps of the embedded trainer; the overrides are those of its comparison with TRL."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch.profiler import profile

from plat.spec.expansion.experiment import build_run, config_object
from plat.trainer.api import State
from plat_rl.embedded.scoring import set_up
from plat_rl.embedded.spec import EmbeddedTrainer
from plat_rl.embedded.train import _Run
from trainers.operations import MatrixProduct, Operations

WARM_UP, STEPS = 3, 24
PROMPTS, GROUP, TOKENS = 8, 16, 48
QUIET = (
    "eval.every=1000",
    "eval.instances=1",
    "eval.heldout=1",
    "train.checkpoint_every=1000",
    "train.iterations=1000",
    "early_stop.variance_window=0",
    "early_stop.success_window=0",
    "algorithm=grpo",
)
ONE_TURN = (
    "task=frozenlake",
    "task.turns=1",
    "+task.env.max_solution=2",
    f"task.response_tokens={TOKENS}",
    "mi.every=0",
    "train.mini_batches=1",
    "train.lr=1e-5",
    "algorithm.entropy_coef=0",
)
MULTI_TURN = (
    "task=frozenlake",
    "model.shape.ffn=152",  # about the prototype's number of parameters
    "model.base.steps=400",
    "model.base.pool=4000",
    "mi.every=1",
    "mi.samples=128",
    "mi.trajectory=false",
    "train.mini_batches=4",
)
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


def mean_of_faster_half(seconds: list[float]) -> float:
    """Return the mean of the faster half: a busy machine slows the other half."""
    return float(np.mean(sorted(seconds)[: (len(seconds) + 1) // 2]))


def quiet_run(overrides: tuple[str, ...], cache: Path) -> _Run:
    """Return a run of the embedded trainer that writes nothing, in the mode in which runs compute."""
    config = config_object(build_run(overrides), EmbeddedTrainer())
    set_up(config)
    return _Run(config, NoIO(cache))


def embedded_steps(overrides: tuple[str, ...], cache: Path, steps: int = STEPS) -> dict[str, float]:
    """Return seconds and GFLOP of a step, GFLOP/s of matrix products between the steps, and properties of the steps."""
    run = quiet_run((*QUIET, *overrides), cache)
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
    timed = run.book.io.metrics[WARM_UP:]

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
    """Return the share of the operations' time outside matrix products, and the number of operations of a step."""
    run = quiet_run((*QUIET, *MULTI_TURN), folder)
    for _ in range(WARM_UP):
        run._iterate()
    with profile() as profiler:
        for _ in range(steps):
            run._iterate()
    events = profiler.key_averages()
    total = sum(event.self_cpu_time_total for event in events)
    products = sum(event.self_cpu_time_total for event in events if event.key in PRODUCTS)
    return 1 - products / total, sum(event.count for event in events) / steps
