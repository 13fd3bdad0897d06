"""Time runs of a script that does nothing but print one metric, beside the bare process of the same command.

    python benchmarks/bench_script.py [--runs 40]

The bare processes and the sweep take turns. A sweep of one run is subtracted, so that the start of plat and of the
report do not count.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from measuring import best, clean_environment, figure, options, plat

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

        sweep(1)  # makes the store
        process = best(bare)[0] / given.runs
        whole, one = best(lambda: sweep(given.runs))[0], best(lambda: sweep(1))[0]
    ours = (whole - one) / (given.runs - 1)
    figure("a script that prints one metric, as a run", 1000 * ours, "ms", f"the bare process: {1000 * process:.1f} ms")


if __name__ == "__main__":
    main()
