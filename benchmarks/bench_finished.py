"""A finished sweep of 1,000 runs: giving `plat sweep` again, and `plat status` and `plat plan` on it.

Processor time of whole processes, each beside the same interpreter that imports the libraries that any verb needs and
reads as many small JSON files: what cannot be avoided.

The runs are those of the toy trainer of tests/outside_paper with zero iterations, made in this process; what is timed
does not depend on what a run trained.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUTSIDE = ROOT / "tests" / "outside_paper"
RUNS = 1000
OVERRIDES = [f"matrix.seed=range({RUNS // 2})", "climb.iterations=0", "climb.games=1"]
VERBS = ("sweep", "status", "plan")
REFERENCE = "import glob, json, sys, typer, omegaconf; [json.load(open(name)) for name in glob.glob(sys.argv[1])]"
REPEATS = 5


def plat(verb: str, home: Path) -> tuple[str, float]:
    """What the verb prints, and its processor time in seconds."""
    command = [sys.executable, "-m", "plat", verb, str(OUTSIDE / "experiments" / "guessing.yaml"), *OVERRIDES]
    return timed([*command, "--home", str(home)])


def timed(command: list[str]) -> tuple[str, float]:
    """What a process prints, and its processor time, user and system, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def make_runs(home_path: Path) -> None:
    """RUNS finished run directories."""
    from plat.runner.execution import execute
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
        for verb in VERBS:
            ours, reference, printed = [], [], ""
            for _ in range(REPEATS):  # in turn, so that both meet the same machine
                printed, seconds = plat(verb, home)
                ours.append(seconds)
                results = str(home / "runs" / "*" / "*" / "result.json")
                reference.append(timed([sys.executable, "-c", REFERENCE, results])[1])
            whole = verb != "sweep" or printed.startswith("nothing to do")
            name = f"plat {verb}, {RUNS:,} finished runs, processor time"
            against = f"libraries and {RUNS:,} JSON files alone: {min(reference):.3f} s"
            figure = {"name": name, "value": min(ours), "unit": "s", "against": against}
            print("BENCH " + json.dumps({**figure, "ratio": min(reference) / min(ours), "ok": whole}))


if __name__ == "__main__":
    main()
