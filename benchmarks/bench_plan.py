"""Time the planning of 10,000 runs (composition, typed validation, identity, states, cost) against Hydra's composition.

    .venv/bin/python benchmarks/bench_plan.py [--runs 10304] [--sample 40]

Hydra composes a sample of the same runs, with the conf module initialised once; its time is scaled up.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from make_home import experiment_file
from measuring import best, figure, options

from plat.planning import make_plan
from plat.spec.composition.conf import reference
from plat.spec.expansion.experiment import load_experiments
from plat.store.home import Home
from plat_rl.run_config import RunConfig


def main() -> None:
    arguments = options(__doc__, runs=10_304, sample=40).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = experiment_file(Path(folder), arguments.runs)
        first, _ = best(lambda: load_experiments([file], ["matrix.seed=[0]"]), repeats=1)
        print(f"first small plan, which imports Hydra: {first:.2f} s")
        ours, plan = best(lambda: make_plan(load_experiments([file]), Home.find(folder + "/home")))
    count = len(plan.rows)
    sample = [
        ["filter=top_p", *(f"{name}={value}" for name, value in row.run.axes.items())]
        for row in random.Random(0).sample(plan.rows, arguments.sample)
    ]
    with reference("plat_rl.conf", RunConfig) as compose:
        compose(sample[0])
        of_sample, _ = best(lambda: [compose(overrides) for overrides in sample], repeats=1)
    hydra = of_sample / len(sample) * count
    print(f"plan of {count:,} runs: {1e6 * ours / count:.0f} µs a run; hydra.compose timed on {len(sample)}")
    figure(f"plan {count:,} runs", ours, "s", f"hydra.compose of the same runs: {hydra:.0f} s", ratio=hydra / ours)


if __name__ == "__main__":
    main()
