"""Time the import of runs into a SQLite store: plat's writer and MLflow's client, on the same records in one process.

    python benchmarks/bench_import.py [--runs 30] [--steps 200] [--keys 15]

Each writer fills an empty store. They write each run alternately, so that both meet the same load.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from bench_reader import record
from measuring import figure, options

from plat.store.home import Home
from plat.store.mlflow.backend import Backend
from plat.store.mlflow.client_store import ClientStore
from plat.store.mlflow.run_record import Point, RunRecord
from plat.store.mlflow.sqlite_creation import ensure_sqlite
from plat.store.mlflow.sqlite_store import SqliteStore

BOUND = 0.1  # seconds for the import of one run
PARAMS = {f"section.param_{index}": str(index) for index in range(40)}
NOTES = {f"note.{index}": f"text {index}" for index in range(7)}


def write_seconds(store: Backend, run: RunRecord) -> float:
    """Return the wall-clock seconds to write one run. Raises RuntimeError if the store refuses it."""
    begin = time.perf_counter()
    if not store.write(run, None):
        raise RuntimeError(f"the store refused {run.name}")
    return time.perf_counter() - begin


def main() -> None:
    given = options(__doc__, runs=30, steps=200, keys=15).parse_args()
    points = [
        Point(f"train/metric_{key}", step, 0.5 * key + 0.01 * step, 10**12 + 1000 * step)
        for step in range(given.steps)
        for key in range(given.keys)
    ]
    with tempfile.TemporaryDirectory() as scratch:
        direct, through_client = (f"sqlite:///{scratch}/{name}/mlflow.db" for name in ("direct", "client"))
        ensure_sqlite(through_client)  # create the tables first, so that neither writer does
        stores: list[Backend] = [SqliteStore(direct), ClientStore(through_client, Home(Path(scratch) / "home"))]
        seconds: list[list[float]] = [[], []]
        for number in range(given.runs + 1):
            run = record(number, points, PARAMS, NOTES)
            for store, taken in zip(stores, seconds, strict=True):
                taken.append(write_seconds(store, run))
        for store in stores:
            store.close()
    ours, reference = (statistics.median(taken[1:]) for taken in seconds)  # the first loads modules
    name = f"import of a run of {len(points):,} points, median of {given.runs}"
    figure(name, ours, "s", f"MLflow's client: {reference:.3f} s; bound {BOUND} s", ratio=reference / ours)


if __name__ == "__main__":
    main()
