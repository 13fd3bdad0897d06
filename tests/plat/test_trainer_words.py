"""What a trainer may say about itself: which metric is its success, how long a run is, and what its time depends on."""

from __future__ import annotations

import json

import plat_toy
import pytest
from toy_runs import toy_run
from trainers import like

from plat.planning.cost import History
from plat.runner.execution import execute
from plat.store.home import Home
from plat.store.provenance.code_state import CodeState
from plat.store.run_directory.creation import create
from plat.store.run_directory.damage import damage
from plat.store.run_directory.history import run_history
from plat.store.run_directory.state import run_state
from plat.trainer.api import HEADLINE
from plat.trainer.finding import find_trainer


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home").create()


@pytest.fixture
def other_words(monkeypatch):
    """The toy trainer with a headline, an iteration count and cost keys of its own."""
    kind = like(
        plat_toy.Toy,
        headline=lambda config: "walk/norm",
        iterations=lambda config: 10 * config["train"]["iterations"],
        cost_keys=("mischief", "train.iterations"),
    )
    monkeypatch.setattr(plat_toy, "Toy", kind)


def test_a_trainer_need_say_nothing_of_it():
    spec, config = find_trainer("plat_toy:Toy"), {"train": {"iterations": 7}}
    assert (spec.headline(config), spec.iterations(config)) == (HEADLINE, 7)


@pytest.mark.parametrize("config", [{}, {"train": 5}, {"train": {}}, {"train": {"iterations": "many"}},
                                    {"train": {"iterations": True}}])  # fmt: skip
def test_a_config_may_not_say_how_many_iterations_it_has(config):
    assert plat_toy.Toy().iterations(config) is None


def test_success_is_the_trainers_headline_metric(home, other_words):
    run = toy_run(iterations=4)
    paths = create(home, run, "a", code=CodeState())
    assert execute(home, run.id) == "finished"
    metrics, tables = run_history(paths)
    norms = {metric.step: metric.value for metric in metrics if metric.key == "walk/norm"}
    result = json.loads(paths.result.read_text())
    assert result["success"] == norms[4] and result["iterations"] == 40
    assert damage(paths, metrics, tables) is None
    paths.result.unlink()
    paths.attempt(1).outcome.unlink()
    assert run_state(paths).success == norms[4] and run_state(paths).iterations == 40


def test_cost_is_learnt_from_runs_that_agree_in_the_trainers_own_keys(home, other_words):
    run = toy_run(iterations=4)
    create(home, run, "a", code=CodeState())
    execute(home, run.id)
    line = json.loads(home.history.read_text())
    assert line["cost"] == {"mischief": "none", "train.iterations": 4}
    costly = {**line, "cost": {"mischief": "none", "train.iterations": 5}, "wall": 400.0, "iterations": 40}
    home.history.write_text(json.dumps({**line, "wall": 40.0, "iterations": 40}) + "\n" + json.dumps(costly) + "\n")
    history = History.read(home.history)
    assert history.seconds(toy_run(iterations=4, seed=3), 0) == 40.0
    assert history.seconds(toy_run(iterations=5, seed=3), 0) == 500.0
