"""What the orchestration itself costs: one run of zero iterations, a finished sweep again, and the state of 1,000 runs.

    python benchmarks/bench_orchestration.py

The run of zero iterations goes through everything a real one does (directory, lease, fork, config, spool, checkpoint,
outcome, result), one at a time on one warm worker slot whose server has torch loaded. References measured in the same
minute: the same trainer called directly, a process of `multiprocessing`'s forkserver with the same modules preloaded
that does nothing, and reading 1,000 small JSON files.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy

from plat.dispatch.api import ENDED, Change
from plat.dispatch.driver import sweep
from plat.dispatch.progress import Silent
from plat.spec.experiment import Run
from plat.store.durable import to_checked_json
from plat.store.home import Home
from plat.store.provenance.code_state import CodeState
from plat.store.run_directory.attempts import new_attempt
from plat.store.run_directory.creation import create
from plat.store.run_directory.run_io import FileRunIO
from plat.store.run_directory.state import run_state
from plat.trainer.api import Outcome, RunIO, State, TrainerSpec
from plat.trainer.config import RunConfig, TrainConfig
from plat.trainer.plugins import ALLOW_IMPORT

RUNS = 40
MANY = 1000
MODULES = ("torch",)


def train(config: RunConfig, io: RunIO) -> Outcome:
    """What a trainer does around no iterations: restore, one evaluation's worth of metrics, one checkpoint."""
    io.restore()
    io.log(0, {f"val/metric_{number}": 0.5 for number in range(20)})
    io.save(0, State({"weights": numpy.zeros(25_000, dtype=numpy.float32)}, {"rng": list(range(625))}))
    return Outcome("finished", {"parameters": 25_000})


SPEC = TrainerSpec(
    name="bench",
    version="1",
    config_type=RunConfig,
    load=lambda: train,
    preload=(*MODULES, "bench_orchestration"),
)


class Clock(Silent):
    """Notes when each run ends."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def change(self, change: Change, *, success: float | None = None, seconds: float = 0.0) -> None:
        if change.state == ENDED:
            assert change.outcome == "finished", change
            self.ends.append(time.perf_counter())


def run(number: int) -> Run:
    # One iteration on paper: for runs that train, the server imports what the trainer needs before it forks them.
    config = dataclasses.asdict(
        RunConfig(trainer="bench_orchestration:SPEC", seed=number, train=TrainConfig(iterations=1))
    )
    name = f"bench-s{number}"
    return Run(f"{number:016x}", name, {"seed": number}, config["trainer"], config, None, {"threads": 1, "gpus": 0})


def bare_call(home: Home) -> float:
    """Milliseconds of the trainer alone in a warm process, writing its events and its checkpoint as it always does."""
    times = []
    for number in range(RUNS):
        paths = home.run(f"bare{number}")
        paths.root.mkdir(parents=True)
        started = time.perf_counter()
        io = FileRunIO(paths, new_attempt(paths, 1), home.cache, lambda: False)
        train(RunConfig(), io)
        times.append(time.perf_counter() - started)
    return 1e3 * statistics.median(times)


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


def plain_forkserver() -> float:
    """Milliseconds of a process that does nothing, from a warm forkserver of the standard library, median.

    Measured from a program without a main module's file, which the children would import again.
    """
    return float(subprocess.run([sys.executable, "-c", FORKSERVER], capture_output=True, check=True).stdout)


def zero_iterations(home: Home) -> float:
    """Milliseconds from the end of one run to the end of the next, median; the server's start is before the first."""
    clock = Clock()
    report = sweep(home, [run(number) for number in range(RUNS)], 1, clock)
    assert report.counts() == {"done": RUNS}
    return 1e3 * statistics.median(after - before for before, after in zip(clock.ends, clock.ends[1:], strict=False))


def make_done(home: Home, runs: list[Run]) -> None:
    code = CodeState("0" * 40, False, {"torch": "2"})
    for run in runs:
        paths = create(home, run, "bench", code=code)
        result = {"id": run.id, "name": run.name, "outcome": "finished", "attempt": 1, "step": 0, "wall": 1.0}
        paths.result.write_bytes(to_checked_json({**result, "summary": {}, "attempts": [1], "time": time.time()}))


def best(work: Any, repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def report(name: str, value: float, unit: str, reference: float, what: str) -> None:
    """One figure beside its reference of the same minute."""
    figure = {"name": name, "value": round(value, 4), "unit": unit, "against": f"{what}: {reference:.3g} {unit}"}
    print("BENCH " + json.dumps({**figure, "ratio": reference / value}), flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "a").create()
        bare, plain, ours = bare_call(home), plain_forkserver(), zero_iterations(home)
        print(f"a run of zero iterations: {ours:.1f} ms in all, of which the trainer's own call {bare:.1f} ms")
        report("a run of zero iterations over the bare call", ours - bare, "ms", plain, "plain forkserver process")

        home = Home(Path(folder) / "b").create()
        runs = [run(number) for number in range(MANY)]
        make_done(home, runs)
        paths = [home.run(made.id) for made in runs]
        reading = best(lambda: [json.loads(path.result.read_bytes()) for path in paths])
        what = f"reading {MANY} JSON files"
        report("a finished sweep of 1,000 again", best(lambda: sweep(home, runs)), "s", reading, what)
        report("state of 1,000 runs", best(lambda: [run_state(path) for path in paths]), "s", reading, what)


if __name__ == "__main__":
    os.environ[ALLOW_IMPORT] = "1"  # the trainer of this file is named by its module
    main()
