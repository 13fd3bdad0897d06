"""A home whose runs are few, indexed as if they were many, and long enough after they ended."""

from __future__ import annotations

import pytest

from plat.store.home import Home
from plat.store.index import configs, indexed_runs, remembered


@pytest.fixture
def indexed(monkeypatch):
    """Every run is indexed, whatever their number, as soon as its files are written."""
    monkeypatch.setattr(indexed_runs, "FEW", 0)
    monkeypatch.setattr(configs, "FEW", 0)
    monkeypatch.setattr(remembered, "SAVED_FROM", 1)
    monkeypatch.setattr(remembered, "is_settled", lambda mark, now: True)


@pytest.fixture
def reads(monkeypatch):
    """The paths of the JSON files of runs that are read from now on."""
    from plat.store.run_directory import own_files

    paths = []
    real = own_files.load_json
    monkeypatch.setattr(own_files, "load_json", lambda path: (paths.append(path), real(path))[1])
    return paths


@pytest.fixture
def make_home(tmp_path):
    """make_home(name) -> a Home; none of these tests needs a store."""
    return lambda name="home", store=False: Home(tmp_path / name).create()


@pytest.fixture
def ids(home, recipe):
    """Three finished runs, one stopped, one failed and one that was interrupted."""
    outcomes = ["finished", "finished", "finished", "stopped:low_success", "failed:oom", None]
    for number, outcome in enumerate(outcomes):
        recipe(number, outcome=outcome).write(home)
    return home.run_ids()
