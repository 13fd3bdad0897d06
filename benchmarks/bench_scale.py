"""Verbs in a home of many finished runs: processor time of whole processes, beside asking for as many files' stamps.

    python benchmarks/bench_scale.py                      5,000 runs, made here
    python benchmarks/bench_scale.py --folder DIR         the home of `python benchmarks/make_home.py DIR --runs 100000`

Each verb is called once before it is measured, because the first call in a home reads what the index remembers later.
The reference is the same Python, which imports what every verb needs and asks for the stamps of two files for each run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from make_home import make_home

RUNS = 5_000
REPEATS = 3
REFERENCE = """
import os, sys, typer, omegaconf
for entry in os.scandir(sys.argv[1]):
    for run in os.scandir(entry.path) if len(entry.name) == 2 else [entry]:
        os.stat(run.path + "/result.json"), os.stat(run.path + "/meta.json")
"""


def measured(command: list[str]) -> tuple[float, int]:
    """Processor seconds, user and system, of a process, and its largest memory in MB."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise subprocess.CalledProcessError(status, command)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as for a user
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.folder is None:
            make_home(Path(scratch), arguments.runs)
        measure(arguments.folder or Path(scratch))


def measure(folder: Path) -> None:
    from plat.store.home import Home

    home, file = Home(folder / "home"), str(folder / "many.yaml")
    ids = home.run_ids()
    verbs = {"status": [], "status FILE": [file], "plan FILE": [file], "why RUN": [ids[0]], "sync": []}
    if not home.database.exists():
        del verbs["sync"]
    for shown, rest in verbs.items():
        command = [sys.executable, "-m", "plat", shown.split()[0], *rest, "--home", str(home.root)]
        measured(command)
        ours, references, memory = [], [], 0
        for _ in range(REPEATS):  # in turn, so that both meet the same machine
            seconds, memory = measured(command)
            ours.append(seconds)
            references.append(measured([sys.executable, "-c", REFERENCE, str(home.runs)])[0])
        name = f"plat {shown}, {len(ids):,} finished runs, processor time ({memory} MB)"
        against = f"stamps of {2 * len(ids):,} files: {min(references):.2f} s"
        figure = {"name": name, "value": min(ours), "unit": "s", "against": against}
        print("BENCH " + json.dumps({**figure, "ratio": min(references) / min(ours)}), flush=True)


if __name__ == "__main__":
    main()
