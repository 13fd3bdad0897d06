"""Fixtures of the command line: verbs in this process, a store made once, a home, experiment files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from plat.cli import main
from plat.store.mlflow.sqlite_file import ensure_sqlite

Verb = Callable[..., tuple[int, str, str]]


@pytest.fixture
def plat(capfd: pytest.CaptureFixture[str]) -> Verb:
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
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names no home and no store."""
    for name in ("PLAT_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new SQLite store, to be copied: making one takes MLflow two seconds."""
    return ensure_sqlite(f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}")


@pytest.fixture
def project(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch, nothing_named: None) -> Path:
    """The current folder, with a home that has a store."""
    (tmp_path / "plat-home").mkdir()
    shutil.copy(empty_store, tmp_path / "plat-home" / "mlflow.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home that does not exist yet, and no store of the environment's."""
    monkeypatch.setenv("PLAT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path / "home"


@pytest.fixture
def spec(tmp_path):
    """Write an experiment file."""

    def write(text: str, name: str = "small.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write
