"""A home, experiment files and the toy trainer, for tests of the verbs."""

from __future__ import annotations

import shutil

import pytest
from claimed_store import claimed_store
from plat_fixtures import home, spec
from runner_runs import make

from plat.runner.execution import execute
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths

__all__ = ["claimed_store", "executed", "home", "spec", "toy"]


@pytest.fixture
def toy(toy_paper, empty_store, home, monkeypatch):
    """The toy trainer can be found, here and in worker processes; the home has an empty store."""
    home.mkdir()
    shutil.copy(empty_store, home / "mlflow.db")
    monkeypatch.syspath_prepend(str(toy_paper))
    monkeypatch.setenv("PYTHONPATH", str(toy_paper))


@pytest.fixture
def executed(home):
    """Do a run of the toy trainer in this process, whatever becomes of it: its directory. `twice`: a second attempt."""

    def run(twice: bool = False, **options: object) -> RunPaths:
        place = Home(home).create()
        paths = make(place, **options)
        for _ in range(1 + twice):
            execute(place, paths.id)
        return paths

    return run
