"""Reading every history of a store of 800,000 points: our reader against MLflow's client, which must agree.

    python benchmarks/bench_reader.py            the client reads a tenth of the runs, its time is scaled up
    python benchmarks/bench_reader.py --full     the client reads everything

The store is filled by the importer's own writer, so rows lie on disk as they do after a sweep. Imports and the creation
of the store are not timed; the best of three is taken of ours, a single pass of the client's.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
import time
from pathlib import Path

import numpy as np

from plat.store.home import Home
from plat.store.mlflow.client import mlflow_client
from plat.store.mlflow.frames import Frames, Store
from plat.store.mlflow.record import Point, RunRecord
from plat.store.mlflow.sqlite_store import SqliteStore

RUNS, KEYS, STEPS = 100, 40, 200
AIM = 25  # times faster than the client


def fill(home: Home) -> None:
    """RUNS x KEYS x STEPS points with a few NaN and infinities."""
    rng = random.Random(0)
    store = SqliteStore(home.store_uri())
    keys = [f"mi/first_turn/key_{number:02d}" for number in range(KEYS)]
    special = {7: math.nan, 8: math.inf, 9: -math.inf}
    for number in range(RUNS):
        points = [
            Point(key, step, special.get(step, 0.0) if key == keys[0] and step in special else rng.random(), 10**12)
            for step in range(STEPS)
            for key in keys
        ]
        run = f"{number:016x}"
        tags = {"plat.kind": "run", "plat.id": run, "plat.in.bench": "1"}
        record = RunRecord(run, f"run-{number}", "bench", ["bench"], "x", "FINISHED", 0, 1, {}, tags, points, {})
        store.write(record, None, None)
    store.close()


def read_ours(home: Home, file: str, times: int) -> tuple[Frames, float]:
    """Frames of an experiment file's runs, and the best time of several."""
    best = math.inf
    for _ in range(times):
        begin = time.perf_counter()
        frames = Store(home.store_uri(), home).load(file)
        best = min(best, time.perf_counter() - begin)
    return frames, best


def read_client(home: Home, name: str, every: int) -> tuple[dict[tuple[str, str], list[tuple[int, float]]], float]:
    """Histories of each `every`-th run of an MLflow experiment by (run, key), and the time that all runs would take."""
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


def equal(frames: Frames, histories: dict[tuple[str, str], list[tuple[int, float]]]) -> bool:
    """Bit for bit, once the client's largest number is read as infinity."""
    largest = np.finfo(float).max
    groups = dict(list(frames.metrics.groupby(["run_id", "key"])))
    for name, history in histories.items():
        steps, values = (np.array(column) for column in zip(*sorted(history, key=lambda row: row[0]), strict=True))
        values = np.where(np.abs(values) >= largest, np.copysign(np.inf, values), values)
        ours = groups[name]
        if not (np.array_equal(ours.step, steps) and np.array_equal(ours.value, values, equal_nan=True)):
            return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="let the client read every run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder)).create()
        fill(home)
        frames, ours = read_ours(home, "bench", 3)
        histories, client = read_client(home, "bench", 1 if arguments.full else 10)
        same, ratio = equal(frames, histories), client / ours
        print(f"{len(frames.metrics):,} points, {len(histories):,} histories compared, equal: {same}")
        against = f"at least {AIM} x MLflow's client, {client:.1f} s" + ("" if arguments.full else " (from a tenth)")
        figure = {"name": "read 800,000 points", "value": ours, "unit": "s", "against": against}
        print("BENCH " + json.dumps({**figure, "ratio": ratio, "ok": same and ratio >= AIM}))


if __name__ == "__main__":
    main()
