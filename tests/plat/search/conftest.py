"""Nothing of the environment decides where a search is kept, and importing Optuna's storage warns of nothing."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_place_named(monkeypatch):
    for name in ("PLAT_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
