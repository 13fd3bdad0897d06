"""Measure the cost of orchestration: a run of zero iterations, a finished sweep again, the state of 1,000 runs.

    python benchmarks/bench_orchestration.py

The run of zero iterations has all parts of a real one, one run at a time on one warm worker slot whose server has torch
loaded. References of the same minute: a direct call of the same trainer, an idle process of `multiprocessing`'s
forkserver with the same modules preloaded, and reading 1,000 small JSON files.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
from make_home import CODE, finish
from measuring import best, figure, sized

from plat.dispatch.dispatcher import ENDED, Change
from plat.dispatch.driver import sweep
from plat.dispatch.progress import Progress
from plat.plugins.loading import ALLOW_IMPORT
from plat.spec.expansion.experiment import Run
from plat.store.home import Home
from plat.store.run_directory.attempts import new_attempt
from plat.store.run_directory.creation import create
from plat.store.run_directory.run_io import FileRunIO
from plat.store.run_directory.state import run_state
from plat.trainer.api import Outcome, RunIO, State, Trainer
from plat_rl.run_config import RunConfig, TrainConfig

RUNS = max(4, sized(40))
MANY = sized(1000)
MODULES = ("torch",)


def train(config: RunConfig, io: RunIO) -> Outcome:
    """Do a trainer's work around zero iterations: restore, log the metrics of one evaluation, save one checkpoint."""
    io.restore()
    io.log(0, {f"val/metric_{number}": 0.5 for number in range(20)})
    io.save(0, State({"weights": numpy.zeros(25_000, dtype=numpy.float32)}, {"rng": list(range(625))}))
    return Outcome("finished", {"parameters": 25_000})


class Bench(Trainer):
    name, version, config_type = "bench", "1", RunConfig
    preload = (*MODULES, "bench_orchestration")

    def train(self, config: RunConfig, io: RunIO) -> Outcome:
        return train(config, io)


class Clock(Progress):
    """Record the time at which each run ends."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def change(self, change: Change, *, measured: str = "", seconds: float = 0.0) -> None:
        if change.state == ENDED:
            assert change.outcome == "finished", change
            self.ends.append(time.perf_counter())


def run(number: int) -> Run:
    # One iteration in the config: for runs that train, the server imports the trainer's modules before it forks.
    config = RunConfig(trainer="bench_orchestration:Bench", seed=number, train=TrainConfig(iterations=1))
    values, needs = dataclasses.asdict(config), {"threads": 1, "gpus": 0}
    return Run(f"{number:016x}", f"bench-s{number}", {"seed": number}, config.trainer, values, None, needs)


def bare_call(home: Home) -> float:
    """Return the median milliseconds of the trainer alone in a warm process, with its events and checkpoint."""
    times = []
    for number in range(RUNS):
        paths = home.run(f"bare{number}")
        paths.root.mkdir(parents=True)
        started = time.perf_counter()
        io = FileRunIO(paths, new_attempt(paths, 1), home.cache, lambda: False)
        train(RunConfig(), io)
        times.append(time.perf_counter() - started)
    return 1e3 * statistics.median(times)


# Prints the median milliseconds of an idle process from a warm forkserver of the standard library. It runs without a
# main file, which the children would import again.
FORKSERVER = f"""
import multiprocessing, os, statistics, time
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload({list(MODULES)!r})
times = []
for _ in range({RUNS}):
    started = time.perf_counter()
    process = context.Process(target=os.getpid)
    process.start()
    process.join()
    times.append(time.perf_counter() - started)
print(1e3 * statistics.median(times[2:]))
"""


def zero_iterations(home: Home) -> float:
    """Return the median milliseconds from the end of one run to the end of the next, without the server's start."""
    clock = Clock()
    report = sweep(home, [run(number) for number in range(RUNS)], 1, clock)
    assert report.counts() == {"done": RUNS}
    return 1e3 * statistics.median(after - before for before, after in itertools.pairwise(clock.ends))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "a").create()
        bare, ours = bare_call(home), zero_iterations(home)
        plain = float(subprocess.run([sys.executable, "-c", FORKSERVER], capture_output=True, check=True).stdout)
        print(f"a run of zero iterations: {ours:.1f} ms in all, of which the trainer's own call {bare:.1f} ms")
        over, against = ours - bare, f"plain forkserver process: {plain:.3g} ms"
        figure("a run of zero iterations over the bare call", over, "ms", against, ratio=plain / over)

        home = Home(Path(folder) / "b").create()
        runs = [run(number) for number in range(MANY)]
        for made in runs:
            finish(create(home, made, "bench", code=CODE), made)
        paths = [home.run(made.id) for made in runs]
        reading, _ = best(lambda: [json.loads(path.result.read_bytes()) for path in paths])
        against = f"reading {MANY} JSON files: {reading:.3g} s"
        again, _ = best(lambda: sweep(home, runs))
        states, _ = best(lambda: [run_state(path) for path in paths])
        figure(f"a finished sweep of {MANY:,} again", again, "s", against, ratio=reading / again)
        figure(f"state of {MANY:,} runs", states, "s", against, ratio=reading / states)


if __name__ == "__main__":
    os.environ[ALLOW_IMPORT] = "1"  # this file's trainer is named by its module
    main()
