"""A home, a command line in this process, and a store made once, for tests of the verbs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from runner_runs import make

from plat.cli import main
from plat.runner.execution import execute
from plat.store.home import Home, RunPaths
from plat.store.mlflow.sqlite_creation import ensure_sqlite


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home that does not exist yet, and no store of the environment's."""
    monkeypatch.setenv("PLAT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path / "home"


@pytest.fixture
def plat(capfd):
    """Run a verb in this process: (exit code, stdout, stderr)."""

    def run(*arguments: object, traceback: bool = False) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        assert ("Traceback" in out + err) == traceback, out + err
        return int(stop.value.code or 0), out, err

    return run


@pytest.fixture
def spec(tmp_path):
    """Write an experiment file."""

    def write(text: str, name: str = "small.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """A new store: making one takes MLflow two seconds."""
    return ensure_sqlite(f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}")


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
