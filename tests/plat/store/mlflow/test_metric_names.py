"""Metrics whose names MLflow refuses: each is stored under a name of its own, and read under the logged one."""

from __future__ import annotations

import os

import pytest

from plat.store.mlflow import run_record
from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.spelling import clean_key
from plat.store.mlflow.verify import verify_store


@pytest.fixture
def odd(recipe, monkeypatch):
    """The recipe of a run with names that differ in a character only."""
    made = recipe(1)
    values = {"pass@1": 0.2, "pass^1": 0.9, "passA": 0.3}
    monkeypatch.setattr(type(made), "log", lambda self, spool, step: spool.append(step, values))
    return made


def test_two_names_have_two_values(home, experiment, odd):
    odd.write(home)
    import_runs(home, home.store_uri())
    frame = Store(home.store_uri(), home).load(experiment("table4", [odd])).metrics
    last = frame[frame["step"] == 8]
    assert list(zip(last["key"], last["value"], strict=True)) == [("pass@1", 0.2), ("passA", 0.3), ("pass^1", 0.9)]
    assert verify_store(home, home.store_uri()).differing == {}


def test_a_store_of_an_earlier_version_keeps_its_names(home, experiment, odd):
    paths = odd.write(home)
    with pytest.MonkeyPatch.context() as before:
        before.setattr(run_record, "metric_key", clean_key)
        import_runs(home, home.store_uri())
    os.utime(paths.root, (1, 1))  # as a copy of the home would: the run is imported again
    import_runs(home, home.store_uri())
    frames = Store(home.store_uri(), home).load(experiment("table4", [odd]))
    assert set(frames.metrics["key"]) == {"pass_1", "passA"} and frames.changed == {}
    assert verify_store(home, home.store_uri()).differing == {}
