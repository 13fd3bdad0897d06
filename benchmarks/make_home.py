"""Make a home with many finished runs: real run directories, and a real store filled by the importer.

    python benchmarks/make_home.py DIR --runs 20000     DIR/home and its experiment file DIR/many.yaml

The runs are a product of tasks, algorithms, sizes, filters and seeds, with full configs. Only their training is
simulated: two metrics at five steps and one table, in the files of a real run. An interrupted call can be repeated.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from measuring import options

from plat.spec.expansion.experiment import Experiment, load_experiment
from plat.spec.expansion.run import Run
from plat.store.disk.durable import to_checked_json, write_file
from plat.store.home import Home
from plat.store.provenance.code_state import CodeState
from plat.store.run_directory.creation import create
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.spool import SpoolWriter

AXES: dict[str, list[Any]] = {
    "task": ["sokoban", "frozenlake", "metamathqa", "countdown"],
    "algorithm": ["ppo", "dapo", "grpo", "drgrpo"],
    "model": ["qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-3b", "qwen2.5-7b"],
    "filter.value": [1.0, 0.98, 0.95, 0.9, 0.8, 0.6, 0.4],
}
PER_SEED = 4 * 4 * 4 * 7
STEPS = (0, 10, 20, 30, 40)
CODE = CodeState(versions={"plat": "0"})


def experiment_file(folder: Path, runs: int) -> Path:
    """Write an experiment file of at most `runs` runs, but at least one seed of each combination."""
    file = folder / "many.yaml"
    axes = {**AXES, "seed": list(range(max(1, runs // PER_SEED)))}
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"title": "many runs", "base": {"filter": "top_p"}, "matrix": axes}))
    return file


def finish(paths: RunPaths, run: Run) -> None:
    """Write the files of a finished run to its directory."""
    attempt = paths.attempt(1)
    attempt.root.mkdir(parents=True)
    spool = SpoolWriter(attempt.events, run.id)
    for step in STEPS:
        spool.append(step, {"val/success": 0.5, "rollout/return_mean": 0.1 * step})
    spool.table("heldout_instances", STEPS[-1], {"role": "peak", "success": [0, 1] * 8})
    spool.close()
    now = time.time()
    ended = {"outcome": "finished", "reason": "", "step": STEPS[-1], "success": 0.5, "summary": {}, "time": now}
    outcome = {"run": run.id, "attempt": 1, **ended, "wall": 10.0, "error": None, "events": len(STEPS) + 1}
    facts = {"run": run.id, "attempt": 1, "restored_step": None, "host": "host", "threads": 1, "time": now}
    numbers = {"iterations": STEPS[-1], "attempt": 1, "attempts": [1], "events": {"1": len(STEPS) + 1}, "wall": 10.0}
    write_file(attempt.meta, to_checked_json(facts), sync=False)
    write_file(attempt.outcome, to_checked_json(outcome), sync=False)
    write_file(paths.result, to_checked_json({"id": run.id, "name": run.name, **ended, **numbers}), sync=False)


def make_home(folder: Path, runs: int, *, store: bool = True) -> tuple[Home, Experiment]:
    """Return the home and its experiment file, with all runs finished, and imported unless `store` is false."""
    experiment = load_experiment(experiment_file(folder, runs))
    home = Home(folder / "home").create()
    for run in experiment.runs:
        paths = home.run(run.id)
        if not paths.result.exists():
            finish(create(home, run, experiment.name, code=CODE), run)
    if store:
        from plat.store.mlflow.importer import import_runs

        import_runs(home, home.store_uri(), [experiment])
    return home, experiment


def main() -> None:
    parser = options(__doc__, runs=20_000)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--no-store", action="store_true", help="leave the runs to be imported")
    arguments = parser.parse_args()
    started = time.perf_counter()
    home, experiment = make_home(arguments.folder, arguments.runs, store=not arguments.no_store)
    print(f"{len(experiment.runs):,} finished runs in {home.root}, made in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
