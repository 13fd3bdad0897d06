"""A finished sweep of 1,000 runs: giving `plat sweep` again, and `plat status` on it. Wall time of whole processes.

The runs are those of the toy trainer of tests/outside_paper with zero iterations, made in this process; what is timed
does not depend on what a run trained.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUTSIDE = ROOT / "tests" / "outside_paper"
RUNS = 1000
OVERRIDES = [f"matrix.seed=range({RUNS // 2})", "climb.iterations=0", "climb.games=1"]
AIMS = {"sweep": 1.0, "status": 0.5, "plan": 1.0}  # seconds
REPEATS = 5


def plat(verb: str, home: Path) -> tuple[str, float]:
    """What the verb prints, and its wall time."""
    command = [sys.executable, "-m", "plat", verb, str(OUTSIDE / "experiments" / "guessing.yaml"), *OVERRIDES]
    started = time.perf_counter()
    done = subprocess.run([*command, "--home", str(home)], check=True, capture_output=True, text=True)
    return done.stdout, time.perf_counter() - started


def make_runs(home_path: Path) -> None:
    """RUNS finished run directories."""
    from plat.runner import execute
    from plat.spec.experiment import load_experiment
    from plat.store.home import Home
    from plat.store.provenance.code_state import collect
    from plat.store.run_directory.creation import create

    home, code = Home(home_path).create(), collect()
    experiment = load_experiment(OUTSIDE / "experiments" / "guessing.yaml", OVERRIDES)
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
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        sys.path.insert(0, str(site))
        make_runs(home)
        _, first = plat("sweep", home)
        print(f"first `plat sweep`, which imports {RUNS:,} runs and draws the report: {first:.1f} s")
        for verb, aim in AIMS.items():
            outputs = [plat(verb, home) for _ in range(REPEATS)]
            wall = min(seconds for _, seconds in outputs)
            whole = verb != "sweep" or outputs[-1][0].startswith("nothing to do")
            name = f"plat {verb}, {RUNS:,} finished runs"
            figure = {"name": name, "value": wall, "unit": "s", "against": f"at most {aim:g} s", "ratio": aim / wall}
            print("BENCH " + json.dumps({**figure, "ok": whole and wall <= aim}))


if __name__ == "__main__":
    main()
