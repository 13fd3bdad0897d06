"""Time the submission of runs to SLURM: processor time of `plat sweep --on slurm`, and memory of the dispatcher.

    python benchmarks/bench_submission.py                           1,000 runs, submitted to the fake SLURM of the tests
    python benchmarks/bench_submission.py --runs 10000
    python benchmarks/bench_submission.py --folder DIR --remove 10  of the home of `make_home.py DIR --runs 100000`,
                                                                    from which ten finished runs are removed first

No run starts: the fake SLURM has no slots. The time of its commands counts, too. The reference is the same Python,
which makes as many folders with three files of the same sizes.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from make_home import experiment_file
from measuring import cost, figure, options, plat

from plat.store.coordination.submissions import open_submissions
from plat.store.home import Home

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "contract"))
from clusters import FakeSlurm

REFERENCE = """
import os, sys
for number in range(int(sys.argv[2])):
    folder = f"{sys.argv[1]}/{number}"
    os.makedirs(folder)
    for name, size in {"config.yaml": 2000, "meta.json": 1700, "code.txt": 100}.items():
        with open(f"{folder}/{name}", "wb") as file:
            file.write(b"x" * size)
"""


def submission(home: Home, file: Path, scratch: Path) -> None:
    """Submit the missing runs of a file, and print the cost."""
    cost(plat("sync", home=home.root))  # makes the store
    here = [run_id for run_id in home.run_ids() if home.run(run_id).result.exists()]
    slurm = FakeSlurm(scratch / "slurm")
    os.environ.update(slurm.environment)
    try:
        slurm.set(slots=0)
        seconds, memory = cost(plat("sweep", file, "--on", "slurm", home=home.root))
        submitted = sum(len(ids) for submission in open_submissions(home) for ids in submission.tasks())
        calls = slurm.calls()["sbatch"]
    finally:
        slurm.stop()
    reference = cost([sys.executable, "-c", REFERENCE, str(scratch / "reference"), str(submitted)]).seconds
    runs = f"{submitted:,} runs to submit" + (f", {len(here):,} are done" if here else "")
    name = f"plat sweep --on slurm, {runs}, processor time ({memory // 1024**2} MB, {calls} submissions)"
    figure(name, seconds, "s", f"making the same folders and files: {reference:.2f} s", ratio=reference / seconds)


def main() -> None:
    parser = options(__doc__, runs=1_000, remove=0)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        file = folder / "many.yaml" if arguments.folder else experiment_file(folder, arguments.runs)
        home = Home(folder / "home").create()
        for run_id in home.run_ids()[: arguments.remove]:
            shutil.rmtree(home.run(run_id).root)
        submission(home, file, Path(scratch))


if __name__ == "__main__":
    main()
