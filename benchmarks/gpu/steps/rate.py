"""Measure how fast the embedded trainer rolls out and updates on the device, by size and precision of the model.

One iteration plays 8 prompts x 16 trajectories of Sokoban, 3 turns of at most 80 tokens, and makes 4 GRPO updates on
all of them. The weights are random (`random_models`). Floating-point operations are those of `trainers.operations`; the
card's rate is that of square matrix products of the same precision, in the same minute.
"""

from __future__ import annotations

import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from random_models import SHAPES, folder_of
from trainers.embedded import QUIET, quiet_run
from trainers.operations import Operations

from plat_rl.embedded.scoring import set_up
from steps.step import GIB, Step

TASK = (
    *("task=sokoban", "task.turns=3", "task.env.max_solution=6", "train.rendering=chat", "train.context=current"),
    *("mi.every=0", "mi.probe=0", "early_stop.empty_window=0"),
)
BATCH = (
    *("train.prompts=8", "train.group_size=16", "task.response_tokens=80"),
    *("train.mini_batches=4", "train.micro_batch=8"),
)
TINY_BATCH = ("train.prompts=4", "train.group_size=2", "task.response_tokens=4", "train.mini_batches=1")
NEEDED = {"0.1 M": 2, "100 M": 15, "494 M": 50}  # GiB of the card
PRECISIONS = ("bfloat16", "float32")  # the quicker one first
ITERATIONS = 1  # timed, after one that warms up


def main() -> None:
    step = Step("rate")
    prepare(step)
    for precision in PRECISIONS:
        halved = precision == "bfloat16"
        step.measure(f"matrix rate, {precision}", partial(matrix_rate, step, precision), bfloat16=halved)
    for size in SHAPES:
        for precision in PRECISIONS:
            work = partial(rate, step, size, precision)
            step.measure(f"{size}, {precision}", work, NEEDED[size], bfloat16=precision == "bfloat16")


def prepare(step: Step) -> None:
    """Compute as a run does: with its threads and, on a GPU, in deterministic forms."""
    torch.set_num_threads(2 if step.tiny else 8)
    config: Any = SimpleNamespace(device=step.device, threads=torch.get_num_threads())
    set_up(config)


def synchronize(step: Step) -> None:
    if step.device == "cuda":
        torch.cuda.synchronize()


def matrix_rate(step: Step, precision: str) -> dict[str, Any]:
    """Return the best rate in TFLOP/s of products of square matrices of random numbers."""
    size = 256 if step.tiny else 8192
    a, b = (torch.randn(size, size, device=step.device).to(getattr(torch, precision)) for _ in range(2))
    best = float("inf")
    for _ in range(8):
        synchronize(step)
        started = time.perf_counter()
        a @ b
        synchronize(step)
        best = min(best, time.perf_counter() - started)
    return {"size": size, "tflops": 2 * size**3 / best / 1e12}


def options(step: Step, size: str, precision: str) -> tuple[str, ...]:
    """Return the overrides of a quiet run of the embedded trainer from the random model of a size."""
    model = f"model.path={folder_of(step.folder / 'models', size)}"
    batch = TINY_BATCH if step.tiny else BATCH
    return (
        *QUIET,
        *TASK,
        *batch,
        model,
        f"device={step.device}",
        f"dtype={precision}",
        f"threads={torch.get_num_threads()}",
    )


def rate(step: Step, size: str, precision: str) -> dict[str, Any]:
    """Return tokens a second of rollouts and updates, TFLOP/s and their share of the matrix rate, and peak memory."""
    run = quiet_run(options(step, size, precision), step.folder / "cache")
    run._iterate()
    iterations = ITERATIONS
    played, play = [], run.collector.rollout

    def counted(*arguments: Any) -> Any:
        batch = play(*arguments)
        played.append(int(batch.response_length.sum()))
        return batch

    run.collector.rollout = counted
    operations = Operations(run.shape)
    operations.watch(run)
    if step.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    synchronize(step)
    started = time.perf_counter()
    for _ in range(iterations):
        run._iterate()
    synchronize(step)
    seconds = time.perf_counter() - started
    timed, tokens = run.book.io.metrics[-iterations:], sum(played)
    rollout, update = (sum(metrics[f"time/{part}"] for metrics in timed) for part in ("rollout", "update"))
    tflops = operations.total / seconds / 1e12
    card = step.measured.get(f"matrix rate, {precision}", {}).get("tflops")
    return {
        "parameters": run.shape.parameters,
        "tokens": tokens / iterations,
        "rollout_tokens_per_second": tokens / rollout,
        "update_tokens_per_second": tokens / update,
        "seconds": seconds / iterations,
        "tflops": tflops,
        "share_of_matrix_rate": tflops / card if card else None,
        "peak_gib": torch.cuda.max_memory_allocated() / GIB if step.device == "cuda" else None,
    }


if __name__ == "__main__":
    main()
