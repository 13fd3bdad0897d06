"""Handing runs to SLURM: processor time of `plat sweep --on slurm`, and the memory of the process that dispatches.

    python benchmarks/bench_submission.py                           1,000 runs, handed to the fake SLURM of the tests
    python benchmarks/bench_submission.py --runs 10000
    python benchmarks/bench_submission.py --folder DIR --remove 10  of the home of `make_home.py DIR --runs 100000`,
                                                                    from which ten finished runs are removed first

Nothing runs: the fake SLURM has no slots. The time of its commands counts, too. The reference is the same Python,
which makes as many folders with four files of the same sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_scale import measured
from make_home import experiment_file

from plat.store.home import Home

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "contract"))
from clusters import FakeSlurm

REFERENCE = """
import os, sys
for number in range(int(sys.argv[2])):
    folder = f"{sys.argv[1]}/{number}"
    os.makedirs(folder)
    for name, size in {"config.yaml": 2000, "meta.json": 1700, "code.txt": 100, "001.json": 500}.items():
        with open(f"{folder}/{name}", "wb") as file:
            file.write(b"x" * size)
"""


def plat(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "plat", *arguments]


def submission(home: Home, file: Path, scratch: Path) -> None:
    """Submit what is missing of a file, and print what that took."""
    subprocess.run(plat("sync", "--home", str(home.root)), check=True, stdout=subprocess.DEVNULL)  # makes the store
    here = [run_id for run_id in home.run_ids() if home.run(run_id).result.exists()]
    slurm = FakeSlurm(scratch / "slurm")
    os.environ.update(slurm.environment)
    try:
        slurm.set(slots=0)
        seconds, memory = measured(plat("sweep", str(file), "--on", "slurm", "--home", str(home.root)))
        submitted = sum(any(home.run(run_id).submissions.glob("*.json")) for run_id in home.run_ids())
        calls = slurm.calls()["sbatch"]
    finally:
        slurm.stop()
    reference, _ = measured([sys.executable, "-c", REFERENCE, str(scratch / "reference"), str(submitted)])
    done = f", {len(here):,} are done" if here else ""
    name = (
        f"plat sweep --on slurm, {submitted:,} runs to submit{done}, processor time ({memory} MB, {calls} submissions)"
    )
    against = f"making the same folders and files: {reference:.2f} s"
    figure = {"name": name, "value": seconds, "unit": "s", "against": against, "ratio": reference / seconds}
    print("BENCH " + json.dumps(figure), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--remove", type=int, default=0)
    parser.add_argument("--runs", type=int, default=1_000)
    arguments = parser.parse_args()
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        file = folder / "many.yaml" if arguments.folder else experiment_file(folder, arguments.runs)
        home = Home(folder / "home").create()
        for run_id in home.run_ids()[: arguments.remove]:
            shutil.rmtree(home.run(run_id).root)
        submission(home, file, Path(scratch))


if __name__ == "__main__":
    main()
