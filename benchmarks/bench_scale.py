"""Time verbs in a home of many finished runs: processor time of whole processes.

    python benchmarks/bench_scale.py                      5,000 runs, made here
    python benchmarks/bench_scale.py --folder DIR         the home of `python benchmarks/make_home.py DIR --runs 100000`

Each verb runs once before the measurement, because the first call in a home fills the index. The reference is the same
Python, which imports what every verb needs and calls stat on two files for each run.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from make_home import make_home
from measuring import alternately, cost, figure, options, plat

from plat.store.home import Home

REFERENCE = """
import os, sys, typer, omegaconf
for entry in os.scandir(sys.argv[1]):
    for run in os.scandir(entry.path) if len(entry.name) == 2 else [entry]:
        os.stat(run.path + "/result.json"), os.stat(run.path + "/meta.json")
"""


def measure(folder: Path) -> None:
    home, file = Home(folder / "home"), folder / "many.yaml"
    ids = home.run_ids()
    verbs = {"status": [], "status FILE": [file], "plan FILE": [file], "why RUN": [ids[0]], "sync": []}
    if not home.database.exists():
        del verbs["sync"]
    for shown, rest in verbs.items():
        command = plat(shown.split()[0], *rest, home=home.root)
        cost(command)
        ours, stamps = alternately(command, [sys.executable, "-c", REFERENCE, str(home.runs)], repeats=3)
        memory = ours.memory // 1024**2
        name = f"plat {shown}, {len(ids):,} finished runs, processor time ({memory} MB)"
        against = f"stamps of {2 * len(ids):,} files: {stamps.seconds:.2f} s"
        figure(name, ours.seconds, "s", against, ratio=stamps.seconds / ours.seconds)


def main() -> None:
    parser = options(__doc__, runs=5_000)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.folder is None:
            make_home(Path(scratch), arguments.runs)
        measure(arguments.folder or Path(scratch))


if __name__ == "__main__":
    main()
