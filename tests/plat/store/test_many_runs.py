"""States, descriptions and configs of many runs are those of each run's directory, on any file system."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from plat.store import many_runs
from plat.store.many_runs import agreeing, descriptions, nearest, states
from plat.store.run_directory.run_files import load_meta
from plat.store.run_directory.state import run_state

OUTCOMES = ["finished", "finished", "stopped:low_success", "failed:oom", None]


@pytest.fixture
def ids(home, recipe):
    for number, outcome in enumerate(OUTCOMES):
        recipe(number, outcome=outcome).write(home)
    return home.run_ids()


@pytest.fixture
def runs(home, recipe):
    return [recipe(number, config={"lr": number // 2, "task": "ab"[number % 2]}).write(home) for number in range(6)]


@pytest.fixture(params=["fast", "slow"])
def file_system(request, monkeypatch):
    """A fast one, and one so slow that threads read."""
    if request.param == "slow":
        monkeypatch.setattr(many_runs, "SAMPLE", 1)
        monkeypatch.setattr(many_runs, "SLOW", 0.0)


@pytest.mark.usefixtures("file_system")
def test_states_are_those_of_the_directories_in_the_order_asked_for(home, ids):
    asked = [*reversed(ids), "00ff" * 4, ids[0]]
    told = {run_id: replace(state, age=None) for run_id, state in states(home, asked).items()}
    assert told == {run_id: replace(run_state(home.run(run_id)), age=None) for run_id in asked}
    assert list(told) == asked[:-1] and list(states(home)) == ids
    shown = [state.state for state in states(home, ids).values()]
    assert shown == ["done"] * 3 + ["failed", "interrupted"]


@pytest.mark.usefixtures("file_system")
def test_a_description_has_what_meta_json_says(home, ids, recipe):
    home.run(ids[4]).meta.unlink()
    described = descriptions(home, ids)
    assert list(described) == ids and list(descriptions(home, ids[3:1:-1])) == ids[3:1:-1]
    for number, (run_id, description) in enumerate(described.items()):
        meta = load_meta(home.run(run_id)) or {"name": run_id, "config_sha256": ""}
        assert (description.name, description.config_sha256) == (meta["name"], meta["config_sha256"])
        assert description.axes == (recipe(number).axes if number < 4 else {}) and description.needs is None
        assert description.experiments == (("table4",) if number < 4 else ())


@pytest.mark.usefixtures("file_system")
def test_the_nearest_run_differs_in_the_fewest_values(home, runs):
    near, difference = nearest(home, runs[0])
    assert near.id == runs[1].id and set(difference) == {"seed", "task"}
    assert difference["task"] == ("a", "b")


def test_configs_that_cannot_be_read_are_left_out(home, runs):
    runs[1].config.write_text("edited: true\n")
    shutil.rmtree(runs[2].root)
    runs[3].config.unlink()
    assert nearest(home, runs[0])[0].id == runs[4].id
    for paths in runs[4:]:
        paths.config.write_text("[")
    assert nearest(home, runs[0]) == (None, {})


def test_a_run_of_another_home(home, make_home, recipe, runs):
    """`plat why DIRECTORY` compares it with the runs of the home that it looks at."""
    elsewhere = recipe(4, config={"lr": 0, "task": "a"}).write(make_home("other"))
    assert nearest(home, elsewhere)[0].id == runs[0].id


def test_runs_agree_that_have_these_values_or_lack_the_key(home, runs):
    by_number = [paths.id for paths in runs]
    found = agreeing(home, [{"task": "a"}, {"task": "b", "lr": 1}, {"lr": 9}, {"added.later": 3}])
    assert found == [sorted(by_number[::2]), [by_number[3]], [], sorted(by_number)]
    assert agreeing(home, []) == []
