"""Runs of the scripts in `examples/`: with plat, and alone, which gives the numbers to compare with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from plat.store.home import Home
from plat.store.run_directory.checkpoint import list_checkpoints
from plat.store.run_directory.history import run_history
from plat.store.run_directory.paths import RunPaths

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("argparse_torch", "hydra", "shell", "notebook")
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the shell script calls `python`
# Long enough to be killed in the middle: each saves every one to two seconds.
EPOCHS, ROUNDS = 400, 900
ALONE = {
    "argparse_torch": f"python train.py --lr 0.1 --hidden 32 --momentum 0.9 --epochs {EPOCHS} --seed 1",
    "shell": f"sh train.sh 0.3 0.0 10 {ROUNDS} 1",
}
VALUES = {
    "argparse_torch": {"lr": 0.1, "hidden": 32, "momentum": 0.9, "epochs": EPOCHS},
    "shell": {"rate": 0.3, "penalty": 0.0, "batch": 10, "rounds": ROUNDS},
}


def one_run_of(name: str, folder: Path) -> Path:
    """Write an experiment file with one run of an example, that of `ALONE`; its path."""
    lines = (EXAMPLES / name / f"{name}.yaml").read_text().partition("matrix:")[0].splitlines()
    kept = [line for line in lines if line.strip().split(":")[0] not in VALUES[name]]
    kept += [f"  script.folder: {EXAMPLES / name}", *(f"  {key}: {value}" for key, value in VALUES[name].items())]
    path = folder / f"{name}.yaml"
    path.write_text("\n".join([*kept, "matrix: {seed: [1]}", ""]))
    return path


def start_alone(name: str, folder: Path) -> subprocess.Popen[str]:
    """Start the script of an example without plat; its checkpoints lie in the folder."""
    command = ALONE[name].split() + (["--checkpoints", str(folder)] if name == "argparse_torch" else [])
    return subprocess.Popen(
        [sys.executable, *command[1:]] if command[0] == "python" else command,
        cwd=EXAMPLES / name,
        env={**os.environ, "PATH": PATH, "PLAT_CHECKPOINT_DIR": str(folder), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def curves_alone(process: subprocess.Popen[str]) -> list[tuple[int, float, float]]:
    """(step, loss, accuracy) of a script that runs alone."""
    lines = [json.loads(line) for line in process.communicate(timeout=120)[0].splitlines()]
    assert process.returncode == 0
    return [(line.get("epoch", line.get("step")), line["loss"], line["accuracy"]) for line in lines]


def curves(run: RunPaths) -> list[tuple[int, float, float]]:
    """(step, loss, accuracy) of a run of plat."""
    found: dict[int, dict[str, float]] = {}
    for row in run_history(run)[0]:
        found.setdefault(row.step, {})[row.key] = row.value
    return [(step, found[step]["loss"], found[step]["accuracy"]) for step in sorted(found)]


def runs_of(home: Path) -> dict[str, RunPaths]:
    """Example -> the run of it in a home of the files of `one_run_of`."""
    runs = [Home(home).run(run_id) for run_id in Home(home).run_ids()] if home.exists() else []
    named = {run: run.config.read_text() if run.config.exists() else "" for run in runs}
    return {"shell" if "train.sh" in text else "argparse_torch": run for run, text in named.items() if text}


def has_checkpoint(run: RunPaths) -> bool:
    """Whether an attempt of a run has a complete checkpoint."""
    return any(True for attempt in run.attempts() for _ in list_checkpoints(attempt.checkpoints))
