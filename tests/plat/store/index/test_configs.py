"""The nearest run is the one that comparing all configs gives, whether they are remembered, changed or damaged."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plat.store.index import configs
from plat.store.index.configs import nearest
from plat.store.index.database import index_path
from plat.store.run_directory.run_files import read_config

pytestmark = pytest.mark.usefixtures("indexed")
VALUES = st.sampled_from([None, 0, 1, 1.0, 0.5, "a", "b", [1, 2], {}, {"x": 1}, {"x": None}])
CONFIGS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def by_comparing_all(home, run, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(configs, "FEW", 10**9)
        return nearest(home, run)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=st.lists(CONFIGS, min_size=1, max_size=6))
def test_the_nearest_is_that_of_the_comparison(make_home, recipe, monkeypatch, drawn):
    home = make_home(f"home-{os.urandom(4).hex()}")
    runs = [recipe(number, config=config, steps=1).write(home) for number, config in enumerate(drawn)]
    for run in (runs[0], runs[-1], runs[0]):
        assert nearest(home, run) == by_comparing_all(home, run, monkeypatch)


@pytest.fixture
def runs(home, recipe):
    return [recipe(number, config={"lr": number // 2, "task": "ab"[number % 2]}).write(home) for number in range(6)]


def test_configs_are_read_once(home, runs, monkeypatch):
    read = []
    monkeypatch.setattr(configs, "read_config", lambda paths: (read.append(paths.id), read_config(paths))[1])
    first = nearest(home, runs[0])
    assert first[0].id == runs[1].id and set(first[1]) == {"seed", "task"} and len(read) == 7
    read.clear()
    assert nearest(home, runs[0]) == first and read == [runs[0].id, runs[1].id]


def test_configs_that_changed_or_are_gone(home, runs, monkeypatch):
    nearest(home, runs[0])
    runs[1].config.write_text("edited: true\n")
    assert nearest(home, runs[0]) == by_comparing_all(home, runs[0], monkeypatch)
    assert nearest(home, runs[0])[0].id == runs[2].id
    shutil.rmtree(runs[2].root)
    runs[3].config.unlink()
    assert nearest(home, runs[0]) == by_comparing_all(home, runs[0], monkeypatch)
    assert nearest(home, runs[0])[0].id == runs[4].id
    for paths in runs[4:]:
        paths.config.write_text("[")
    assert nearest(home, runs[0]) == (None, {})


def test_what_is_remembered_is_never_believed_of_the_run_that_is_named(home, runs, monkeypatch):
    """A config that is damaged under its remembered stamp, as by a failing disk."""
    nearest(home, runs[0])
    real = configs.flat_config
    monkeypatch.setattr(configs, "flat_config", lambda paths: {} if paths.id == runs[1].id else real(paths))
    assert nearest(home, runs[0])[0].id == runs[2].id


@pytest.mark.parametrize("harm", [lambda path: path.unlink(), lambda path: path.write_bytes(b"nonsense" * 999)])
def test_the_index_may_be_lost(home, runs, harm):
    expected = nearest(home, runs[0])
    harm(index_path(home))
    assert nearest(home, runs[0]) == expected == nearest(home, runs[0])


def test_a_run_of_another_home(home, make_home, recipe, runs):
    """`plat why DIRECTORY` compares it with the runs of the home that it looks at."""
    elsewhere = recipe(4, config={"lr": 0, "task": "a"}).write(make_home("other"))
    assert nearest(home, elsewhere)[0].id == runs[0].id


def test_a_home_with_one_run_or_none(home, recipe):
    assert nearest(home, recipe(1).write(home)) == (None, {})


@pytest.mark.parametrize("change", ["UPDATE pairs SET value = '9'", "UPDATE configs SET pairs = x'01000000'"])
def test_an_edited_index_is_not_believed(home, runs, monkeypatch, change):
    expected = nearest(home, runs[0])
    with closing(sqlite3.connect(index_path(home))) as index:
        index.execute(change.replace("'9'", "value || '9'"))
        index.commit()
    assert nearest(home, runs[0]) == expected == by_comparing_all(home, runs[0], monkeypatch)
    assert nearest(home, runs[0]) == expected
