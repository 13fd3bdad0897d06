"""Measure Table 5's step times: the share of an iteration that filtering saves, for each shape of the batch.

    python benchmarks/table5_step_time.py [--rounds N]

All conditions train in one process and take turns, one iteration each, in a new random order for every round, so they
share the other load of the machine. The clock is the CPU time of the process, which has one thread. A shape's ratio is
exp of the mean over rounds of log(filtered / unfiltered), with Student's t interval. Evaluations, probes and scoring of
reasonings are left out, as in the paper's timing. Seconds are not comparable with the paper's.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from measuring import options, use_one_thread

QUIET = ("eval.heldout=0", "mi.every=0", "mi.probe=0", "eval.every=1000000", "train.iterations=1000000")
SHAPES = {"128x1": (128, 1), "64x2": (64, 2), "32x4": (32, 4), "8x16": (8, 16)}
WARM_UP = 2
PRINTED = {"64x2": 64.9 / 91.8, "32x4": 52.6 / 89.8, "8x16": 65.9 / 89.2}  # Table 5, seconds


def measure(rounds: int, cache: Path) -> dict[tuple[str, str], list[float]]:
    """Return (shape, filter) -> CPU seconds of an iteration, one for each round."""
    from trainers.embedded import quiet_run

    runs = {}
    for shape, (prompts, group) in SHAPES.items():
        for name in ("none", "top_p") if group > 1 else ("none",):
            chosen = ("task=sokoban", "algorithm=ppo", "model=qwen2.5-3b", f"filter={name}")
            budget = (f"train.prompts={prompts}", f"train.group_size={group}")
            runs[shape, name] = quiet_run((*chosen, *budget, *QUIET), cache)
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
    """Return a line for each shape: mean seconds without and with the filter, and their ratio with its interval."""
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


def main() -> None:
    parser = options(__doc__, rounds=20)
    rounds = parser.parse_args().rounds
    if rounds < 2:
        parser.error("--rounds: at least 2, or there is no interval")
    use_one_thread()
    with tempfile.TemporaryDirectory() as folder:
        print(table(measure(rounds, Path(folder))))


if __name__ == "__main__":
    main()
