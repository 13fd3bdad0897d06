"""Helpers for tests of execution: runs of the toy trainer (tests/toy), homes, and what must be equal after any kill."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import plat_toy

from plat.spec.expansion.experiment import Run
from plat.store.run_directory.checkpoint import list_checkpoints, load_checkpoint
from plat.store.run_directory.history import run_history
from plat.store.run_directory.paths import RunPaths


def toy_run(iterations: int = 6, checkpoint_every: int = 2, **options: Any) -> Run:
    """A run of the toy trainer, with an id that hashes its config."""
    train = plat_toy.Train(iterations, checkpoint_every)
    config = dataclasses.asdict(plat_toy.ToyConfig(train=train, **options))
    run_id = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:16]
    name = f"toy-{config['mischief']}-s{config['seed']}-{run_id[:8]}".replace("_", "-")
    prepare = (config["recipe"], f"recipe {config['recipe']}") if config["recipe"] else None
    resources = {"threads": 1, "gpus": config["gpus"]}
    return Run(run_id, name, {"seed": config["seed"]}, "plat_toy:Toy", config, prepare, resources)


def comparable(paths: RunPaths) -> dict[str, Any]:
    """Everything of a done run that must not depend on how often it was killed (no times, no attempts)."""
    metrics, tables = run_history(paths)
    result = json.loads(paths.result.read_text())
    newest: dict[int, Any] = {}
    for attempt in paths.attempts():
        for step, path in list_checkpoints(attempt.checkpoints):
            state = load_checkpoint(path)
            newest[step] = (json.dumps(state.meta), {key: value.tobytes() for key, value in state.tensors.items()})
    last = max(newest)
    return {
        "metrics": sorted((m.key, m.step, repr(m.value)) for m in metrics if not m.key.startswith("time/")),
        "tables": sorted((t.name, t.step, json.dumps(t.data)) for t in tables),
        "checkpoint": (last, newest[last]),
        "result": {key: result[key] for key in ("id", "name", "outcome", "step", "success", "summary", "iterations")},
        "config": paths.config.read_text(),
    }


def no_step_twice(paths: RunPaths) -> bool:
    """The history has each (key, step) once, and every step from 0 to the last."""
    metrics, _ = run_history(paths)
    names = [(metric.key, metric.step) for metric in metrics]
    steps = {step for _, step in names}
    return len(names) == len(set(names)) and steps == set(range(max(steps) + 1))
