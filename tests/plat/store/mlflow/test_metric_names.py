"""Metrics whose names MLflow refuses: each is stored under a name of its own, and read under the logged one."""

from __future__ import annotations

import pytest

from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs


@pytest.fixture
def odd(recipe, monkeypatch):
    """The recipe of a run with names that differ in a character only."""
    made = recipe(1)
    values = {"pass@1": 0.2, "pass^1": 0.9, "passA": 0.3}
    monkeypatch.setattr(type(made), "log", lambda self, spool, step: spool.append(step, values))
    return made


def test_two_names_have_two_values(home, experiment, odd, runs_of):
    odd.write(home)
    import_runs(home, home.store_uri())
    frame = Store(home.store_uri(), home).load(experiment("table4", [odd])).metrics
    last = frame[frame["step"] == 8]
    assert list(zip(last["key"], last["value"], strict=True)) == [("pass@1", 0.2), ("passA", 0.3), ("pass^1", 0.9)]
    (run,) = runs_of(home)
    assert run.data.metrics == {"pass_x40_1": 0.2, "passA": 0.3, "pass_x5E_1": 0.9}
