"""A home and a search file of the toy trainer. Nothing of the environment decides where a search is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plat.store.home import Home


@pytest.fixture(autouse=True)
def no_place_named(nothing_named):
    """Neither PLAT_HOME nor MLFLOW_TRACKING_URI is set."""


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(tmp_path / "home").create()


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    """Write a search file."""

    def write(text: str, name: str = "toy.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write
