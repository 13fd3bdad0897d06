"""Run directories made by hand in the real format, and MLflow stores copied from one that was made once."""

from __future__ import annotations

import math
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plat.spec.expansion.experiment import Experiment, Run
from plat.store.disk.durable import to_checked_json, write
from plat.store.home import Home
from plat.store.run_directory.checkpoint import save_checkpoint
from plat.store.run_directory.config_text import to_yaml
from plat.store.run_directory.own_files import FORMAT
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import config_hash
from plat.store.run_directory.spool import SpoolWriter
from plat.trainer.api import State

SPECIAL = {3: math.inf, 4: -math.inf, 5: math.nan}


@pytest.fixture(autouse=True)
def fresh_artifact_places():
    """MLflow's client remembers where a run's artifacts are by the run's id alone, which is the same in every store of
    ours; a process works on one store, the tests on many."""
    yield
    module = sys.modules.get("mlflow.tracking._tracking_service.utils")
    if module is not None:
        module._artifact_repos_cache.clear()


@pytest.fixture
def make_home(tmp_path, empty_store):
    """make_home(name) -> a Home with an empty MLflow store."""

    def make(name: str = "home", store: bool = True) -> Home:
        home = Home(tmp_path / name).create()
        if store:
            shutil.copy(empty_store, home.database)
        return home

    return make


@pytest.fixture
def home(make_home) -> Home:
    return make_home()


@dataclass
class Recipe:
    """What a run directory holds. `kills`: (steps logged, durable step) of attempts that were cut short."""

    id: str
    files: list[str] = field(default_factory=lambda: ["table4"])
    steps: int = 8
    kills: list[tuple[int, int]] = field(default_factory=list)
    outcome: str | None = "finished"  # None: still running
    paper: str | None = "ragen2"
    config: dict[str, Any] = field(default_factory=dict)
    salt: float = 0.0
    clock: float = 1.7e9

    @property
    def axes(self) -> dict[str, Any]:
        return {"filter": "top_p", "seed": int(self.id[:4], 16)}

    def metrics(self, step: int, key: str) -> float:
        if key == "mi/first_turn/mi_zscore" and step in SPECIAL:
            return SPECIAL[step]
        return math.sin(step + int(self.id[:4], 16) + self.salt) / 3

    def write(self, home: Home) -> RunPaths:
        """Make the directory; the history is a function of the id and the step alone, like a real trainer's."""
        paths = home.run(self.id)
        paths.root.mkdir(parents=True)
        paths.config.write_text(to_yaml(self.full_config()))
        write(paths.meta, to_checked_json(self.meta()))
        (paths.diff).write_text("diff --git a/x b/x\n")
        durable, events = 0, {}
        attempts = [*self.kills, (self.steps, self.steps)]
        for number, (logged, covered) in enumerate(attempts, start=1):
            attempt = paths.attempt(number)
            attempt.root.mkdir(parents=True)
            spool, counted = SpoolWriter(attempt.events, self.id), 0
            for step in range(durable, logged + 1) if durable == 0 else range(durable + 1, logged + 1):
                self.log(spool, step)
                counted = spool.count if step <= covered else counted
            spool.close()
            if covered > durable:
                save_checkpoint(attempt.checkpoints, covered, State({"w": np.zeros(1)}))
                durable, events[str(number)] = covered, counted
        if self.outcome is not None:
            end = {"outcome": self.outcome, "reason": "", "step": self.steps, "wall": 1.0, "time": self.clock + 100}
            write(attempt.outcome, to_checked_json({"run": self.id, "attempt": len(attempts), **end}))
            if self.outcome == "finished" or self.outcome.startswith("stopped"):
                end |= {"attempt": len(attempts), "attempts": [*range(1, len(attempts) + 1)], "id": self.id}
                end |= {"events": events, "summary": {"parameters": 12}}
                write(paths.result, to_checked_json(end))
        return paths

    def full_config(self) -> dict[str, Any]:
        config = {"seed": self.axes["seed"], "train": {"lr": 3e-4, "iterations": self.steps}, "model": {"path": None}}
        return config | self.config

    def meta(self) -> dict[str, Any]:
        return {
            "id": self.id, "format": FORMAT, "name": f"run-{self.id[:8]}", "trainer": "toy", "trainer_version": "1.0",
            "axes": self.axes,
            "experiments": self.files, "paper": self.paper, "scale": "laptop", "created": self.clock,
            "config_sha256": config_hash(self.full_config()),
            "code": {"commit": "abc123", "dirty": True, "versions": {"torch": "2.13.0"}},
        }  # fmt: skip

    def log(self, spool: SpoolWriter, step: int) -> None:
        keys = ("val/success", "actor/entropy", "mi/first_turn/mi_zscore", "time/step")
        spool.append(step, {key: self.metrics(step, key) for key in keys})
        if step % 4 == 0:
            spool.table("reward_matrix", step, [[step, 0.5], [1, None]])


@pytest.fixture
def recipe():
    """recipe(number, **fields) -> Recipe of the run with the id made from the number."""
    return lambda number, **fields: Recipe(f"{number:04x}{'0' * 12}", **fields)


@pytest.fixture
def experiment():
    """experiment(name, recipes) -> the parsed experiment file of these runs."""

    def make(name: str, recipes: list[Recipe], paper: str | None = "ragen2") -> Experiment:
        runs = [Run(item.id, f"run-{item.id[:8]}", item.axes, "toy", {}, None, {}) for item in recipes]
        return Experiment(
            name, Path(f"{name}.yaml"), f"The title of {name}", paper, "Table 4", [], [], {}, runs, {}, "laptop"
        )

    return make
