"""Metrics of single runs come from their artifacts; the last values of many from a table that may be deleted."""

from __future__ import annotations

import math

import pytest

from plat.store.mlflow import last_values
from plat.store.mlflow.importer import import_runs


@pytest.fixture
def stored(home, recipe):
    """A home with one imported run, and that run in its store."""
    single = recipe(1)
    single.write(home)
    import_runs(home, home.store_uri())
    return home, single, last_values.stored_run(home, single.id)


def test_curves_and_last_values(stored):
    home, single, run = stored
    metrics = last_values.metrics_of(home, run)
    assert metrics["val/success"] == {step: single.metrics(step, "val/success") for step in range(9)}
    assert last_values.last_values(home, run)["val/success"] == single.metrics(8, "val/success")


@pytest.mark.parametrize("content", [None, b"", b"nonsense" * 100])
def test_the_table_is_a_cache(stored, content, monkeypatch):
    home, _, run = stored
    expected = last_values.last_values(home, run)
    table = home.cache / "last_values.db"
    last_values._table.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(last_values, "read_artifact", None)
        assert last_values.last_values(home, run) == expected and math.isfinite(expected["val/success"])
    table.unlink() if content is None else table.write_bytes(content)
    for _ in range(2):
        last_values._table.cache_clear()
        assert last_values.last_values(home, run) == expected


def test_a_run_that_the_store_does_not_have_whole_is_none(stored, recipe):
    home, _, run = stored
    recipe(2, outcome=None).write(home)
    import_runs(home, home.store_uri())
    assert last_values.stored_run(home, recipe(2).id) is None
    assert last_values.stored_run(home, recipe(3).id) is None
    for path in (home.root / "mlartifacts").rglob("measured.parquet"):
        path.write_bytes(b"edited")
    assert last_values.metrics_of(home, run) is None
