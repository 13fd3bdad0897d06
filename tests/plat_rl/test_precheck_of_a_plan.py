"""What a plan says of base models before training, from runs that the home has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plat.planning import make_plan
from plat.planning.plan import Plan
from plat.spec.expansion.experiment import Run, load_experiments
from plat.store.home import Home
from plat.store.run_directory.creation import create
from plat.store.run_directory.spool import SpoolWriter

TEXT = """
title: A small matrix
base: {algorithm: grpo, train.iterations: 3}
matrix:
  slip: {dry: {task.env.frozen: 1.0}, wet: {task.env.frozen: 0.5}}
  task: [frozenlake]
  model: [qwen2.5-0.5b]
  filter: [none, top_p]
  seed: [0, 1]
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


@pytest.fixture
def planned(tmp_path: Path, home: Home) -> Callable[..., Plan]:
    def make(*overrides: str) -> Plan:
        (tmp_path / "matrix.yaml").write_text(TEXT)
        return make_plan(load_experiments([tmp_path / "matrix.yaml"], overrides), home, jobs=1)

    return make


def played(home: Home, run: Run, step: int, **metrics: float) -> None:
    """A run that has begun, and recorded these metrics under `precheck/` or `rollout/`, as the step says."""
    paths = create(home, run, "matrix")
    paths.attempt(1).root.mkdir(parents=True, exist_ok=True)
    spool = SpoolWriter(paths.attempt(1).events, run.id)
    prefix = "precheck" if step == 0 else "rollout"
    spool.append(step, {f"{prefix}/{name}": value for name, value in metrics.items()})
    spool.close()


def by_slip(plan: Plan) -> dict[str, tuple[float, int]]:
    (note,) = plan.notes
    return {row["axes"].get("slip", ""): (row["std_over_mean"], row["batches"]) for row in note.rows}


def of(plan: Plan, **axes: object) -> Run:
    (row,) = [row for row in plan.rows if {str(v) for v in axes.values()} <= {str(v) for v in row.run.axes.values()}]
    return row.run


def test_it_is_the_mean_over_the_different_batches_of_each_start(planned, home):
    plan = planned()
    assert plan.notes == [] and "before training" not in plan.render()
    played(home, of(plan, slip="dry", filter="none", seed=0), 1, rv_std_over_mean=1.0)
    played(home, of(plan, slip="dry", filter="top_p", seed=0), 1, rv_std_over_mean=1.0)  # the same batch
    played(home, of(plan, slip="dry", filter="none", seed=1), 1, rv_std_over_mean=2.0)
    plan = planned()
    assert by_slip(plan) == {"dry": (1.5, 2)}
    assert "frozenlake  qwen2.5-0.5b  dry   1.50      2" in plan.render()
    assert plan.to_json()["prechecks"] == [
        {"task": "frozenlake", "model": "qwen2.5-0.5b", "axes": {"slip": "dry"}, "std_over_mean": 1.5, "batches": 2}
    ]


def test_rollouts_alone_of_another_file_are_found_and_other_sampling_is_not(planned, home):
    alone = planned("train.iterations=0", "train.precheck=16", "algorithm=ppo")
    played(home, of(alone, slip="wet", filter="none", seed=0), 0, rv_std_over_mean=0.5)
    hotter = planned("train.temperature=0.3")
    played(home, of(hotter, slip="dry", filter="none", seed=0), 1, rv_std_over_mean=9.0)
    assert by_slip(planned()) == {"wet": (0.5, 1)}


def test_later_iterations_and_damaged_lines_say_nothing(planned, home):
    run = of(planned(), slip="dry", filter="none", seed=0)
    played(home, run, 2, rv_std_over_mean=7.0)
    played(home, run, 1, rv_std_over_mean=7.0)  # comes after a later one
    damaged = of(planned(), slip="dry", filter="none", seed=1)
    played(home, damaged, 1, rv_std_over_mean=7.0)
    events = home.run(damaged.id).attempt(1).events
    events.write_bytes(events.read_bytes().replace(b"7.0", b"8.0"))
    assert planned().notes == []
