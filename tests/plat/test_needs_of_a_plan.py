"""A plan says what its runs need beside plat, once, and how to get what is not there."""

from __future__ import annotations

from dataclasses import replace

from plat.planning import make_plan
from plat.spec.expansion.experiment import load_experiment
from plat.store.home import Home
from plat_envs.api import Need, find_environment

FILE = """title: Needs
base: {task: countdown, scale: smoke}
matrix: {task.env.largest: [9, 12], seed: [0, 1]}
"""


def test_needs_are_named_once_with_their_fix(tmp_path, monkeypatch):
    countdown = find_environment("countdown")
    there = Need("a file numbers.txt")

    def needs(options):
        server = Need(f"a server of numbers up to {options.largest}", "connection refused", "start-server")
        return [there, server]

    spec = replace(countdown, needs=needs)
    monkeypatch.setattr("plat_rl.environments.find_environment", lambda name: spec)
    (tmp_path / "needs.yaml").write_text(FILE)
    plan = make_plan([load_experiment(tmp_path / "needs.yaml")], Home(tmp_path / "home"))
    assert [need.what for need in plan.needs] == [there.what, *(f"a server of numbers up to {n}" for n in (9, 12))]
    text = plan.render()
    assert text.count("needs a file numbers.txt: it is here") == 1
    assert "needs a server of numbers up to 12: connection refused\n  fix: start-server" in text
    assert plan.to_json()["needs"][1] == {
        "what": "a server of numbers up to 9",
        "absent": "connection refused",
        "fix": "start-server",
    }


def test_a_plan_without_needs_says_nothing_of_them(tmp_path):
    (tmp_path / "needs.yaml").write_text(FILE)
    plan = make_plan([load_experiment(tmp_path / "needs.yaml")], Home(tmp_path / "home"))
    assert plan.needs == [] and "needs a" not in plan.render()
