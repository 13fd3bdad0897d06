"""Runs of every kind, and a bundle of them, for tests of bundles."""

from __future__ import annotations

import dataclasses

import pytest

from plat.store.bundle.exporter import export_bundle
from plat.store.mlflow.importer import import_runs


@pytest.fixture
def recipes(recipe):
    """Five runs: killed and resumed, of two files, stopped early, failed, and one that still runs."""
    return [
        recipe(0, kills=[(6, 4)]),
        recipe(1, files=["other", "table4"]),
        recipe(2, outcome="stopped:low_success"),
        recipe(3, outcome="failed:oom"),
        recipe(4, outcome=None, steps=4),
    ]


@pytest.fixture
def on_disk(experiment, tmp_path):
    """on_disk(name, recipes) -> the experiment file of these runs, written to disk."""

    def make(name, recipes):
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"title: {name}\n")
        return dataclasses.replace(experiment(name, recipes, paper=None), path=path)

    return make


@pytest.fixture
def exported(home, recipes, on_disk, tmp_path):
    """(home, experiment file, bundle folder, what the export said)."""
    for item in recipes:
        item.write(home)
    file = on_disk("table4", recipes)
    import_runs(home, home.store_uri(), [file])
    report = export_bundle(home, [file], tmp_path / "bundle", overrides=["scale=smoke"])
    return home, file, tmp_path / "bundle", report
