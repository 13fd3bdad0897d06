"""Planning runs for a cluster: what they ask for, what they keep on disk, and what their trainer refuses beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plat.errors import SpecError
from plat.planning import make_plan
from plat.planning.check import check_runs
from plat.planning.plan import asked_lines, asked_of
from plat.spec.expansion.experiment import build_run, load_experiments
from plat.store.home import Home
from plat_rl.verl.settings import composition

TEXT = """
title: At paper scale
base: {scale: paper}
matrix:
  task: [sokoban, countdown]
  algorithm: [ppo, grpo]
  seed: [0, 1, 2]
"""


def test_the_plan_says_what_runs_ask_for_before_any_was_measured(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(TEXT)
    plan = make_plan(load_experiments([tmp_path / "e.yaml"]), Home(tmp_path / "home"), jobs=1)
    asked = plan.asked
    assert [(row.task, row.algorithm, row.gpus, row.runs) for row in asked] == [
        ("sokoban", "ppo", 4, 3),
        ("sokoban", "grpo", 2, 3),
        ("countdown", "ppo", 4, 3),
        ("countdown", "grpo", 2, 3),
    ]
    assert plan.to_json()["cost"]["asked"][0]["minutes"] == asked[0].minutes > asked[2].minutes
    hours = sum(row.runs * row.gpus * row.minutes / 60 for row in asked)
    assert f"together at most {hours:,.0f} GPU-hours" in plan.render()
    assert "the times above are limits; how long they take is unknown" in plan.render()
    # Four checkpoints of 12 bytes for each of 3.086e9 parameters, twice with a critic.
    assert plan.disk_bytes == pytest.approx(6 * 4 * 12 * 3.086e9 * (2 + 1), rel=1e-3)


def test_runs_without_gpus_ask_for_nothing() -> None:
    assert asked_lines(asked_of([build_run(["seed=1"])])) == []
    (two_nodes,) = asked_of([build_run(["trainer=verl", "scale=paper", "model=qwen2.5-7b", "verl.nodes=2"])])
    assert "2 x 4" in "\n".join(asked_lines([two_nodes]))


def test_verl_itself_refuses_a_run_before_it_is_submitted() -> None:
    bad = "verl.overrides=['actor_rollout_ref.actor.use_dynamic_bsz=False']"
    runs = [build_run(["trainer=verl", "scale=paper"]), build_run(["trainer=verl", "scale=paper", "seed=3", bad])]
    with pytest.raises(SpecError, match="verl refuses this run") as caught:
        check_runs([build_run(["seed=0"]), *runs])
    assert caught.value.what.startswith(runs[1].name)


def test_runs_that_differ_in_the_seed_alone_are_composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    composed, original = [], composition.compose

    def compose(config: Any, model: str) -> Any:
        composed.append(config.seed)
        return original(config, model)

    monkeypatch.setattr(composition, "compose", compose)
    monkeypatch.setattr(composition, "_CHECKED", set())
    check_runs([build_run(["trainer=verl", "scale=paper", f"seed={seed}"]) for seed in range(5)])
    check_runs([build_run(["trainer=verl", "scale=paper", "algorithm=grpo"])])
    assert composed == [0, 0]
