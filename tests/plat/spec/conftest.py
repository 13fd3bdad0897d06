"""Experiment files written on the fly, and trainers that exist only in a test."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trainers import Bare, like

from plat.errors import SpecError
from plat.spec.expansion.experiment import Experiment, load_experiment
from plat.trainer import finding
from plat.trainer.api import Trainer

_numbers = itertools.count()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experiments")


@pytest.fixture(scope="session")
def write(folder: Path) -> Callable[[str | bytes], Path]:
    """Write an experiment file; a new name each time."""

    def make(text: str | bytes) -> Path:
        path = folder / f"x{next(_numbers)}.yaml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return make


@pytest.fixture(scope="session")
def load(write: Callable[[str | bytes], Path]) -> Callable[..., Experiment]:
    """Load an experiment from its text."""
    return lambda text, *overrides: load_experiment(write(text), overrides)


@pytest.fixture(scope="session")
def refused(load: Callable[..., Experiment]) -> Callable[..., SpecError]:
    """Load text that must be refused; gives the error, after checking that it can be shown."""

    def check(text: str | bytes, *overrides: str) -> SpecError:
        with pytest.raises(SpecError) as caught:
            load(text, *overrides)
        error = caught.value
        assert error.what and error.where and error.fix, error.render()
        assert "\n" not in error.what and "Traceback" not in error.render()
        return error

    return check


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Publish a trainer under a name for the length of the test."""
    published: dict[str, Trainer] = {}
    real = finding.find_trainer

    def publish(config_type: type, name: str = "toy", **members: Any) -> None:
        published[name] = like(Bare, name=name, config_type=config_type, **members)()

    monkeypatch.setattr(
        finding, "find_trainer", lambda name, folder=None: published[name] if name in published else real(name)
    )
    return publish
