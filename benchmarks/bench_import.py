"""Time writing runs into a SQLite store through MLflow's client: processor time of one run, median of many.

    python benchmarks/bench_import.py [--runs 30]

A run of 100 points, one of 1,200, and one of another tool, of which MLflow's tables mirror the last values. The
reference is MLflow's client alone: it creates a run with the same tags, logs the same values and an empty file,
and ends the run.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench_reader import record
from measuring import figure, options

from plat.store.home import Home
from plat.store.mlflow.connect import open_writer
from plat.store.mlflow.importer import import_lock
from plat.store.run_directory.history import Metric

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from plat.store.mlflow.run_record import RunRecord

PARAMS = {f"section.param_{index}": str(index) for index in range(40)}
NOTES = {f"plat.note.{index}": f"text {index}" for index in range(30)}
# what is written -> points, whether their steps are mirrored, bound in seconds
KINDS = {
    "a run of 100 points": (100, True, 0.06),
    "a run of 1,200 points": (1200, True, 0.2),
    "a run of another tool": (1200, False, 0.06),
}


def points(count: int) -> list[Metric]:
    """Return this many values of ten metrics."""
    return [Metric(f"train/metric_{number % 10}", number // 10, 0.01 * number, 1e9 + number) for number in range(count)]


def write_bare(client: MlflowClient, experiment: str, item: RunRecord, curves: bool, file: Path) -> None:
    """Write a record by the fewest calls of MLflow's client: values, parameters and tags in one batch, and one file."""
    from mlflow.entities import Metric, Param

    run = client.create_run(experiment, item.start, tags=item.tags, run_name=item.name).info.run_id
    values = [Metric(point.key, point.value, point.time, point.step) for point in item.mirror(curves)]
    params = [Param(key, value) for key, value in item.params.items()]
    room = 1000 - len(params)
    client.log_batch(run, values[:room], params)
    if values[room:]:
        client.log_batch(run, values[room:])
    client.log_artifact(run, str(file))
    client.set_terminated(run, item.status, item.end)


def main() -> None:
    from mlflow import MlflowClient

    given = options(__doc__, runs=30).parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = Home(Path(scratch) / "home").create()
        bare = MlflowClient(f"sqlite:///{scratch}/bare.db")
        experiment = bare.create_experiment("bare", artifact_location=f"{scratch}/bare")  # else in ./mlruns
        (empty := Path(scratch) / "empty").touch()
        with import_lock(home), open_writer(home, home.store_uri()) as writer:
            number = 0
            for kind, (count, curves, bound) in KINDS.items():
                taken, reference = [], []
                for _ in range(given.runs + 1):
                    number += 1
                    run = record(number, points(count), PARAMS, NOTES)
                    begin = time.process_time()
                    writer.write(run, None, curves=curves)
                    taken.append(time.process_time() - begin)
                    begin = time.process_time()
                    write_bare(bare, experiment, run, curves, empty)
                    reference.append(time.process_time() - begin)
                took, alone = statistics.median(taken[1:]), statistics.median(reference[1:])  # the first loads modules
                name = f"writing {kind}, processor time, median of {given.runs}"
                against = f"MLflow's client alone: {alone:.3f} s; at most {bound} s"
                figure(name, took, "s", against, ratio=alone / took, ok=took <= bound)


if __name__ == "__main__":
    main()
