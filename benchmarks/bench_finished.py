"""Time `plat sweep`, `plat status` and `plat plan` on a finished sweep of 1,000 runs.

Measures the processor time of whole processes. The reference is the same interpreter, which imports the libraries that
every verb needs and reads as many small JSON files. The runs are those of the toy trainer of tests/outside_paper with
zero iterations; the measured times do not depend on the training.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import alternately, clean_environment, cost, figure, plat, sized

OUTSIDE = Path(__file__).parent.parent / "tests" / "outside_paper"
FILE = OUTSIDE / "experiments" / "guessing.yaml"
RUNS = 2 * sized(500)
OVERRIDES = [f"matrix.seed=range({RUNS // 2})", "climb.iterations=0", "climb.games=1"]
REFERENCE = "import glob, json, sys, typer, omegaconf; [json.load(open(name)) for name in glob.glob(sys.argv[1])]"


def make_runs(home_path: Path) -> None:
    from plat.runner.execution import execute
    from plat.spec.expansion.experiment import load_experiment
    from plat.store.home import Home
    from plat.store.provenance.code_state import collect
    from plat.store.run_directory.creation import create

    home, code = Home(home_path).create(), collect()
    experiment = load_experiment(FILE, OVERRIDES)
    assert len(experiment.runs) == RUNS
    for run in experiment.runs:
        create(home, run, experiment.name, paper=experiment.paper, code=code)
        assert execute(home, run.id, redirect=False) == "finished"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        site, home = Path(folder) / "site", Path(folder) / "home"
        install = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-build-isolation", "--no-index"]
        subprocess.run([*install, "--target", str(site), str(OUTSIDE)], check=True)
        os.environ["PYTHONPATH"] = str(site)
        sys.path.insert(0, str(site))
        make_runs(home)
        sweep = plat("sweep", FILE, *OVERRIDES, home=home)
        print(f"first `plat sweep`, which imports {RUNS:,} runs and draws the report: {cost(sweep).seconds:.1f} s")
        said = subprocess.run(sweep, check=True, capture_output=True, text=True, env=clean_environment()).stdout
        reading = [sys.executable, "-c", REFERENCE, str(home / "runs" / "*" / "*" / "result.json")]
        for verb in ("sweep", "status", "plan"):
            costs = alternately(plat(verb, FILE, *OVERRIDES, home=home), reading, repeats=5)
            ours, reference = (one.seconds for one in costs)
            name = f"plat {verb}, {RUNS:,} finished runs, processor time"
            against = f"libraries and {RUNS:,} JSON files alone: {reference:.3f} s"
            whole = verb != "sweep" or said.startswith("nothing to do")
            figure(name, ours, "s", against, ratio=reference / ours, ok=whole)


if __name__ == "__main__":
    main()
