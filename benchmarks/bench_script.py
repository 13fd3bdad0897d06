"""Time runs of a script that does nothing but print one metric, beside the bare process of the same command.

    python benchmarks/bench_script.py [--runs 40]

A run's time is the median of those between the ends of consecutive runs of a sweep, so the start of plat and the report
do not count. A further row says how much of the difference the disk takes: a run makes 6 folders and 11 files, and has
all its events and its result after a power cut. TMPDIR chooses the disk; TMPDIR=/dev/shm leaves it out. A file system
may make files slowly for a minute after many were deleted, so wait between two measurements.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import mkdtemp

from measuring import best, clean_environment, figure, options, plat

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
        written = best(lambda: write(folder, given.runs))[0] / given.runs
    ours = median(later - earlier for earlier, later in pairwise(ended))
    figure("a script that prints one metric, as a run", 1000 * ours, "ms", f"the bare process: {1000 * process:.1f} ms")
    figure("of it: its files", 1000 * written, "ms", "6 folders and 11 files, 3 fsyncs")
    rest = ours - process - written
    figure("of it: the rest", 1000 * rest, "ms", "lease, hashes of files, config, attempt, import into MLflow")


def write(folder: Path, runs: int) -> None:
    """Make as many folders and files as runs make, with the same guarantees for a power cut."""
    for _ in range(runs):
        place = Path(mkdtemp(dir=folder))
        for name in "abcde":
            (place / name).mkdir()
        for name in range(9):
            write_file(place / f"{name}", b"x" * 500, sync=False)
        write_file(place / "events.jsonl", b"x" * 150)
        create(place / "result.json", b"x" * 500)


if __name__ == "__main__":
    main()
