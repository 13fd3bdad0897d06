"""Time reading all histories of a store of 800,000 points from disk, and check them against what was written.

    python benchmarks/bench_reader.py

Writing is not timed. The best of three counts. The list of the runs is in the cache of the home, as after an import.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from measuring import best, figure, options, sized

from plat.store.home import Home
from plat.store.mlflow.connect import open_writer
from plat.store.mlflow.frames import Frames, Store
from plat.store.mlflow.importer import import_lock
from plat.store.mlflow.run_record import RunRecord
from plat.store.run_directory.history import Metric, Table

FILE = "bench"
RUNS, KEYS, STEPS = max(10, sized(100)), 40, sized(200)
BOUND = 0.35  # seconds for 800,000 points


def record(
    number: int, metrics: list[Metric], params: dict[str, str], tags: dict[str, str], tables: Iterable[Table] = ()
) -> RunRecord:
    """Return a finished run that the experiment file FILE asks for."""
    run = f"{number:016x}"
    tags = {"plat.kind": "run", "plat.id": run, "plat.outcome": "finished", f"plat.in.{FILE}": "1"} | tags
    name = tags.get("plat.name", f"run-{number}")
    tags["plat.name"] = name
    return RunRecord(
        tags["plat.id"], name, FILE, [FILE], run, "FINISHED", 0, 1, params, tags, metrics, list(tables)
    )  # fmt: skip


def written(home: Home, records: Iterable[RunRecord]) -> None:
    """Write runs with only the last values in MLflow's tables, which are not read here."""
    with import_lock(home), open_writer(home, home.store_uri()) as writer:
        for item in records:
            writer.write(item, None, curves=False)


def values(number: int) -> list[Metric]:
    """Return KEYS x STEPS points of a run, a few of them NaN or infinite."""
    rng = random.Random(number)
    keys = [f"mi/first_turn/key_{key:02d}" for key in range(KEYS)]
    special = {(7, keys[0]): math.nan, (8, keys[0]): math.inf, (9, keys[0]): -math.inf}
    return [
        Metric(key, step, special.get((step, key), rng.random()), 1e9 + step) for step in range(STEPS) for key in keys
    ]


def equal(frames: Frames) -> bool:
    """Return True if every tenth run has the values that were written, bit for bit."""
    by_run = {str(run_id): rows for run_id, rows in frames.metrics.groupby("run_id")}
    for number in range(0, RUNS, 10):
        rows, expected = by_run[f"{number:016x}"], sorted(values(number))
        if list(zip(rows["key"], rows["step"], strict=True)) != [row[:2] for row in expected]:
            return False
        if not np.array_equal(rows["value"], [row.value for row in expected], equal_nan=True):
            return False
    return len(frames.metrics) == RUNS * KEYS * STEPS


def main() -> None:
    options(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder)).create()
        written(home, (record(number, values(number), {}, {}) for number in range(RUNS)))
        took, frames = best(lambda: Store(home.store_uri(), home).load(FILE))
        points, same = len(frames.metrics), equal(frames)
        figure(f"read {points:,} points", took, "s", f"equal: {same}; at most {BOUND} s", ok=same and took <= BOUND)


if __name__ == "__main__":
    main()
