"""Table 5's step times: what filtering saves of an iteration, for each shape of the batch.

    python benchmarks/table5_step_time.py [--rounds N]

All conditions train in one process and take turns, one iteration each, in an order that is drawn anew for every round:
whatever else this machine does falls on all of them alike. The clock is the CPU time of the process, which has one
thread. A shape's ratio is the mean over rounds of log(filtered / unfiltered), with Student's t interval. Evaluations,
probes and the scoring of reasonings are left out, as in the paper's timing. Not comparable with the paper in seconds.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
SHAPES = {"128x1": (128, 1), "64x2": (64, 2), "32x4": (32, 4), "8x16": (8, 16)}
WARM_UP = 2
PRINTED = {"64x2": 64.9 / 91.8, "32x4": 52.6 / 89.8, "8x16": 65.9 / 89.2}  # Table 5, seconds


def measure(rounds: int, cache: Path) -> dict[tuple[str, str], list[float]]:
    """(shape, filter) -> CPU seconds of an iteration, one for each round."""
    from trainers.embedded import NoIO

    from plat.spec.experiment import build_run, config_object
    from plat.trainer.embedded.spec import SPEC
    from plat.trainer.embedded.train import _Run

    runs = {}
    for shape, (prompts, group) in SHAPES.items():
        for name in ("none", "top_p") if group > 1 else ("none",):
            quiet = ("eval.heldout=0", "mi.every=0", "mi.probe=0", "eval.every=1000000", "train.iterations=1000000")
            budget = (f"train.prompts={prompts}", f"train.group_size={group}")
            overrides = ["task=sokoban", "algorithm=ppo", "model=qwen2.5-3b", f"filter={name}", *budget, *quiet]
            runs[shape, name] = _Run(config_object(build_run(overrides), SPEC), NoIO(cache))
    times: dict[tuple[str, str], list[float]] = {key: [] for key in runs}
    order, shuffle = list(runs), random.Random(0)
    for number in range(WARM_UP + rounds):
        shuffle.shuffle(order)
        for key in order:
            started = time.process_time()
            runs[key]._iterate()
            if number >= WARM_UP:
                times[key].append(time.process_time() - started)
    return times


def table(times: dict[tuple[str, str], list[float]]) -> str:
    """A line for each shape: mean seconds without and with the filter, and their ratio with its interval."""
    import numpy as np

    from plat_analysis.statistics.intervals import t_interval

    lines = ["shape   none s  Top-p s  ratio  95 %            printed"]
    for shape in SHAPES:
        none, filtered = times[shape, "none"], times.get((shape, "top_p"))
        line = f"{shape:6} {np.mean(none):7.3f}"
        if filtered:
            middle, low, high = np.exp(t_interval(np.log(filtered) - np.log(none)))
            line += f"  {np.mean(filtered):7.3f}  {middle:5.2f}  [{low:.2f}, {high:.2f}]   {PRINTED[shape]:6.2f}"
        lines.append(line)
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="timed iterations of each condition [20]")
    rounds = parser.parse_args().rounds
    if rounds < 2:
        parser.error("--rounds: at least 2, or there is no interval")
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):  # read when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ENVIRONMENT})
    with tempfile.TemporaryDirectory() as folder:
        print(table(measure(rounds, Path(folder))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
