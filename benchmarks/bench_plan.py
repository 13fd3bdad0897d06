"""Planning 10,000 runs (composition, typed validation, identity, states, cost) against Hydra composing them.

    .venv/bin/python benchmarks/bench_plan.py [--runs 10000] [--sample 40]

Hydra is measured on a sample of the same runs, with the conf module initialised once, and scaled up. The floor is the
bare product of the axes, JSON and SHA-256 of one dict per run, without any composition or check.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plat.plan import make_plan
from plat.spec.conf import reference
from plat.spec.experiment import load_experiments
from plat.store.home import Home
from plat.trainer.config import RunConfig

AXES: dict[str, list[Any]] = {
    "task": ["sokoban", "frozenlake", "metamathqa", "countdown"],
    "algorithm": ["ppo", "dapo", "grpo", "drgrpo"],
    "model": ["qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-3b", "qwen2.5-7b"],
    "filter.value": [1.0, 0.98, 0.95, 0.9, 0.8, 0.6, 0.4],
}


def measure(function: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Best seconds of a few calls, and the last result."""
    best, result = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return best, result


def floor(axes: dict[str, list[Any]]) -> int:
    """Product, JSON and SHA-256 only."""
    rows = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    return len({hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest() for row in rows})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--sample", type=int, default=40)
    arguments = parser.parse_args()
    seeds = -(-arguments.runs // (4 * 4 * 4 * 7))
    axes = {**AXES, "seed": list(range(seeds))}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.yaml"
        file.write_text(json.dumps({"title": "bench", "base": {"filter": "top_p"}, "matrix": axes}))
        start = time.perf_counter()
        load_experiments([file], ["matrix.seed=[0]"])
        first = time.perf_counter() - start
        plan_seconds, plan = measure(lambda: make_plan(load_experiments([file]), Home.find(folder + "/home")))
    count = len(plan.rows)
    rng = random.Random(0)
    sample = [
        ["filter=top_p", *(f"{name}={rng.choice(values)}" for name, values in axes.items())]
        for _ in range(arguments.sample)
    ]
    with reference("plat.conf", RunConfig) as compose:
        compose(sample[0])
        hydra_sample, _ = measure(lambda: [compose(overrides) for overrides in sample], repeats=1)
    hydra = hydra_sample / len(sample) * count
    floor_seconds, _ = measure(lambda: floor(axes))
    print(f"plan of {count:,} runs                {plan_seconds:8.2f} s")
    print(f"  per run                           {1e6 * plan_seconds / count:8.0f} µs")
    print(f"  first small plan, Hydra imported  {first:8.2f} s")
    print(f"hydra.compose of {count:,} runs       {hydra:8.0f} s   (scaled from {len(sample)})")
    print(f"product, JSON and SHA-256 alone     {floor_seconds:8.3f} s")
    print(
        f"ratio: {hydra / plan_seconds:.0f} times faster than Hydra, {plan_seconds / floor_seconds:.1f} times the floor"
    )
    figure = {"name": f"plan {count:,} runs", "value": plan_seconds, "unit": "s"}
    against = {"against": f"hydra.compose of the same runs: {hydra:.0f} s", "ratio": hydra / plan_seconds}
    print("BENCH " + json.dumps({**figure, **against}))


if __name__ == "__main__":
    main()
