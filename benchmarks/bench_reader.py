"""Time reading all histories of a store of 800,000 points: plat's reader against MLflow's client, which must agree.

    python benchmarks/bench_reader.py             the client reads every tenth run, its time is scaled up
    python benchmarks/bench_reader.py --every 1   the client reads everything

The importer's own writer fills the store, so the order of rows on disk is that after a sweep. Imports are not timed.
The best of three counts for plat, a single pass for the client.
"""

from __future__ import annotations

import math
import random
import tempfile
import time
from pathlib import Path

import numpy as np
from measuring import best, figure, options, sized

from plat.store.home import Home
from plat.store.mlflow.frames import Frames, Store
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.run_record import Point, RunRecord
from plat.store.mlflow.sqlite_store import SqliteStore

FILE = "bench"
RUNS, KEYS, STEPS = max(10, sized(100)), 40, sized(200)
Histories = dict[tuple[str, str], list[tuple[int, float]]]  # by (run, key)


def record(number: int, points: list[Point], params: dict[str, str], tags: dict[str, str]) -> RunRecord:
    """Return a finished run that the experiment file FILE asks for."""
    run = f"{number:016x}"
    tags = {"plat.kind": "run", "plat.id": run, f"plat.in.{FILE}": "1"} | tags
    return RunRecord(run, f"run-{number}", FILE, [FILE], run, "FINISHED", 0, 1, params, tags, points)


def fill(home: Home) -> None:
    """Write RUNS x KEYS x STEPS points, a few of them NaN or infinite."""
    rng = random.Random(0)
    store = SqliteStore(home.store_uri())
    keys = [f"mi/first_turn/key_{number:02d}" for number in range(KEYS)]
    special = {(7, keys[0]): math.nan, (8, keys[0]): math.inf, (9, keys[0]): -math.inf}
    for number in range(RUNS):
        points = [
            Point(key, step, special.get((step, key), rng.random()), 10**12) for step in range(STEPS) for key in keys
        ]
        store.write(record(number, points, {}, {}), None)
    store.close()


def read_client(home: Home, name: str, every: int) -> tuple[Histories, float]:
    """Return histories of every `every`-th run of an MLflow experiment, and estimated seconds for all."""
    client = mlflow_client(home.store_uri())
    experiment = client.get_experiment_by_name(name).experiment_id
    begin = time.perf_counter()
    runs = client.search_runs([experiment], "tags.`plat.kind` = 'run'", max_results=1000)
    searched = time.perf_counter() - begin
    chosen = sorted(runs, key=lambda run: run.info.run_name)[::every]
    histories = {}
    begin = time.perf_counter()
    for run in chosen:
        for key in run.data.metrics:
            history = client.get_metric_history(run.info.run_id, key)
            histories[run.data.tags["plat.id"], key] = [(point.step, point.value) for point in history]
    return histories, searched + (time.perf_counter() - begin) * len(runs) / len(chosen)


def equal(frames: Frames, histories: Histories) -> bool:
    """Return True if all values agree bit for bit; the client's largest number counts as infinity."""
    largest = np.finfo(float).max
    groups = dict(list(frames.metrics.groupby(["run_id", "key"])))
    for name, history in histories.items():
        steps, values = (np.array(column) for column in zip(*sorted(history, key=lambda row: row[0]), strict=True))
        values = np.where(np.abs(values) >= largest, np.copysign(np.inf, values), values)
        ours = groups[name]
        if not (np.array_equal(ours.step, steps) and np.array_equal(ours.value, values, equal_nan=True)):
            return False
    return True


def compare(home: Home, file: str, place: str, every: int, aim: int) -> None:
    """Print the times of both readers for the runs of a file, which are in the MLflow experiment `place`.

    every  the client reads each run of this number
    aim    how many times faster than the client plat should be
    """
    ours, frames = best(lambda: Store(home.store_uri(), home).load(file))
    histories, client = read_client(home, place, every)
    same, ratio = equal(frames, histories), client / ours
    print(f"{len(frames.metrics):,} points, {len(histories):,} histories compared, equal: {same}")
    against = f"at least {aim} x MLflow's client, {client:.1f} s" + f" (from one run in {every})" * (every > 1)
    figure(f"read {len(frames.metrics):,} points", ours, "s", against, ratio=ratio, ok=same and ratio >= aim)


def main() -> None:
    arguments = options(__doc__, every=10).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder)).create()
        fill(home)
        compare(home, FILE, FILE, arguments.every, aim=25)


if __name__ == "__main__":
    main()
