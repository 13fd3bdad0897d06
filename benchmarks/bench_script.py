"""Time runs of a script that does nothing but print one metric, beside the bare process of the same command.

    python benchmarks/bench_script.py [--runs 40]

A run's time is the median of those between the ends of consecutive runs of a sweep, so the start of plat and the report
do not count. The further rows say what the difference is spent on: the disk (after a power cut, a done run has all its
events and its result), and a separate process for each run, so that a crash of one run does not reach another.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median

from measuring import best, clean_environment, figure, options, plat

from plat.dispatch.local.server import MODULES
from plat.runner.training import warm_up
from plat.store.disk.durable import create, write_file

COMMAND = "sh print.sh {seed}"
FILE = """title: A script that does nothing
base: {{trainer: script, script.command: "{command}"}}
matrix:
  seed: range({first}, {last})
"""


def main() -> None:
    given = options(__doc__, runs=40).parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "print.sh").write_text("echo '{\"loss\": 1}'\n")
        seeds = iter(range(10**6))

        def sweep(runs: int) -> None:
            first = next(seeds) * given.runs
            path = folder / "nothing.yaml"
            path.write_text(FILE.format(command=COMMAND, first=first, last=first + runs))
            command = [*plat("sweep", path, home=folder / "home"), "--jobs", "1"]
            subprocess.run(command, check=True, capture_output=True, env=clean_environment())

        def bare() -> None:
            for seed in range(given.runs):
                subprocess.run(["sh", "print.sh", str(seed)], check=True, capture_output=True, cwd=folder)

        process = best(bare)[0] / given.runs
        sweep(given.runs)
        results = (folder / "home" / "runs").glob("*/*/result.json")
        ended = sorted(json.loads(path.read_text())["time"] for path in results)
        synced = best(lambda: sync(folder, given.runs))[0] / given.runs
        forked = best(lambda: fork(given.runs))[0] / given.runs
    ours = median(later - earlier for earlier, later in pairwise(ended))
    figure("a script that prints one metric, as a run", 1000 * ours, "ms", f"the bare process: {1000 * process:.1f} ms")
    figure("of it: 3 fsyncs", 1000 * synced, "ms", "events, result and its folder survive a power cut")
    figure("of it: a forked process", 1000 * forked, "ms", "a crash of a run reaches no other")
    rest = ours - process - synced - forked
    figure("of it: the rest", 1000 * rest, "ms", "directory, lease, hashes of files, config, attempt")


def sync(folder: Path, runs: int) -> None:
    """Do what makes the events and the result of a run survive a power cut."""
    for number in range(runs):
        place = folder / f"synced-{os.getpid()}-{number}"
        place.mkdir(exist_ok=True)
        (place / "result.json").unlink(missing_ok=True)
        write_file(place / "events.jsonl", b"x" * 150)
        create(place / "result.json", b"x" * 500)


def fork(runs: int) -> None:
    """Fork and end processes with the modules of a worker, as the worker server does."""
    for name in MODULES:
        importlib.import_module(name)
    warm_up("script")
    for _ in range(runs):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
