"""The plan: states, cost from history, the matrix as text; and that it writes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from plat.planning import make_plan
from plat.planning.cost import DEFAULT_PREPARE_SECONDS, DEFAULT_RUN_BYTES, History
from plat.planning.plan import Plan
from plat.planning.view import aligned
from plat.spec.expansion.experiment import Experiment, Run, build_run, load_experiments
from plat.store.disk.durable import to_checked_json
from plat.store.home import Home
from plat.store.run_directory.creation import create

TEXT = """
title: A small matrix
base: {algorithm: grpo, train.iterations: 20}
matrix:
  variant: {small: {model: qwen2.5-0.5b}, large: {model: qwen2.5-7b}}
  task: [sokoban, frozenlake]
  filter: [none, top_p]
  seed: [0]
"""

OTHER_BASES = TEXT.replace("train.iterations: 20", "train.iterations: 20, model.base.seed: 9")  # not shipped


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def planned(tmp_path: Path, home: Home) -> Callable[..., Plan]:
    def make(text: str = TEXT, *overrides: str, jobs: int | None = 2) -> Plan:
        (tmp_path / "matrix.yaml").write_text(text)
        return make_plan(load_experiments([tmp_path / "matrix.yaml"], overrides), home, jobs=jobs)

    return make


def finish(home: Home, run: Run, outcome: str = "finished") -> None:
    paths = create(home.create(), run, "matrix")
    ended = {"id": run.id, "outcome": outcome, "step": 20, "success": 0.5, "attempt": 1}
    paths.result.write_bytes(to_checked_json(ended))


def fail(home: Home, run: Run, step: int) -> None:
    paths = create(home.create(), run, "matrix")
    attempt = paths.attempt(1)
    attempt.root.mkdir(parents=True)
    attempt.outcome.write_bytes(to_checked_json({"run": run.id, "outcome": "failed:oom", "step": step}))


def note(home: Home, *lines: Any) -> None:
    home.root.mkdir(exist_ok=True)
    with home.history.open("a") as file:
        file.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)


def line(wall: float, **facts: Any) -> dict[str, Any]:
    usual = {"task": "sokoban", "model": "qwen2.5-0.5b", "algorithm": "grpo", "filter": "none"}
    cost = {f"{group}.name": facts.pop(group, name) for group, name in usual.items()}
    return {"trainer": "embedded", "scale": "laptop", "cost": cost, "iterations": 10, "wall": wall, **facts}


def test_a_newline_in_a_value_does_not_break_the_grid() -> None:
    assert aligned([["a\nb", "c"]]) == ["  a\\nb  c"]


def test_a_plan_writes_nothing(planned: Callable[..., Plan], home: Home) -> None:
    plan = planned()
    plan.render(verbose=True)
    json.dumps(plan.to_json())
    assert not home.root.exists()


def test_before_there_is_a_history(planned: Callable[..., Plan]) -> None:
    assert planned().preparations == [], "the base models of these sizes travel with the package"
    plan = planned(OTHER_BASES)
    assert plan.work_seconds is None and plan.wall_seconds is None, "nothing is known, so nothing is said"
    assert plan.to_json()["cost"]["wall_seconds"] is None and plan.to_json()["runs"][0]["seconds"] is None
    assert plan.disk_bytes == 8 * DEFAULT_RUN_BYTES and plan.measured == 0
    assert len(plan.preparations) == 2, "one base model per size, shared by tasks and filters"
    assert "8 of 8 runs to do with 2 workers" in plan.render() and "unknown until a run has made" in plan.render()


def test_states_and_counts(planned: Callable[..., Plan], home: Home) -> None:
    runs = [row.run for row in planned().rows]
    finish(home, runs[0])
    finish(home, runs[1], "stopped:low_success")
    fail(home, runs[2], 15)
    plan = planned()
    assert plan.counts() == {
        "done": 2,
        "running": 0,
        "queued": 0,
        "unknown": 0,
        "failed": 1,
        "interrupted": 0,
        "missing": 5,
    }
    assert plan.rows[0].seconds == 0.0 and plan.rows[0].state.success == 0.5
    assert plan.rows[2].seconds is None
    note(home, line(10.0))
    assert planned().rows[2].seconds == pytest.approx(5 * 1.0), "only what is left"
    text = plan.render(verbose=True)
    assert "●●" in text and "✗·" in text and "stopped:low_success" in text and "6 of 8 runs" in text
    assert plan.disk_bytes < 6 * DEFAULT_RUN_BYTES, "measured on finished runs"


def test_nothing_left(planned: Callable[..., Plan], home: Home) -> None:
    for row in planned().rows:
        finish(home, row.run)
    plan = planned()
    assert plan.work_seconds == plan.wall_seconds == plan.disk_bytes == 0 and plan.preparations == []
    assert "Nothing to do: all 8 runs are done." in plan.render()


def test_json(planned: Callable[..., Plan], home: Home) -> None:
    first = planned().rows[0].run
    finish(home, first)
    plan = json.loads(json.dumps(planned().to_json()))
    assert len(plan["runs"]) == 8 and plan["counts"]["done"] == 1
    run = plan["runs"][0]
    assert {key: run[key] for key in ("id", "name", "state", "axes")} == {
        "id": first.id,
        "name": first.name,
        "state": "done",
        "axes": {"variant": "small", "task": "sokoban", "filter": "none", "seed": 0},
    }
    assert plan["cost"]["workers"] == 2 and plan["experiments"][0]["title"] == "A small matrix"


def test_cost_is_that_of_the_most_similar_runs(home: Home) -> None:
    def seconds(*overrides: str) -> float | None:
        return History.read(home.history).seconds(build_run(["train.iterations=10", *overrides]), 0)

    note(home, line(100.0), line(10.0), line(20.0))
    small = ["task=sokoban", "model=qwen2.5-0.5b", "algorithm=grpo"]
    assert seconds(*small) == 20.0, "the median"
    note(home, line(50.0, filter="top_p"))
    assert seconds(*small, "filter=top_p") == 50.0, "the same filter"
    assert seconds(*small, "filter=min_p") == 35.0, "no such filter yet: any"
    note(home, line(900.0, model="qwen2.5-7b"))
    assert seconds("task=sokoban", "model=qwen2.5-7b", "algorithm=ppo") == 900.0
    assert seconds(*small, "scale=gpu") is None, "never another scale's"


def test_the_spread_is_that_of_the_newest_similar_runs(home: Home) -> None:
    run = build_run(["task=sokoban", "train.iterations=10"])
    rates = [0.5 + (number * 7 % 31) / 10 for number in range(80)]
    like = {"trainer": run.trainer, "scale": run.config["scale"], "iterations": 2, "cost": {"task.name": "sokoban"}}
    note(home, *({**like, "wall": 2 * rate} for rate in rates))
    history = History.read(home.history)
    expected = 10 * numpy.percentile(rates[-50:], [50, 90])
    assert history.spread(run, 0) == pytest.approx(tuple(expected))
    assert history.spread(run, 4) == pytest.approx(tuple(0.6 * expected)) and history.seconds(run, 4) is not None
    assert history.spread(run, 0, rate_so_far=3.0) == (30.0, 30.0)


@pytest.mark.parametrize("last", [1, 8, 200_000])
def test_a_run_of_a_script_costs_as_much_as_whole_runs_of_it(home: Home, last: int) -> None:
    """Whatever its steps count: epochs, batches or frames. The config states no number of them."""
    run = build_run(["trainer=script", "script.command=python t.py"])
    cost = {"script.command": "python t.py", "script.function": ""}
    note(home, *({"trainer": "script", "wall": wall, "iterations": last, "cost": cost} for wall in (10.0, 12.0, 50.0)))
    history = History.read(home.history)
    assert history.spread(run, 0) == pytest.approx((12.0, 42.4)) and history.seconds(run, last) == 0.0
    assert history.seconds(run, last // 2) == pytest.approx(12.0 * (1 - (last // 2) / last))
    assert history.seconds(run, 0, rate_so_far=3.0) == 3.0 * last
    assert History([]).seconds(run, 0) is None


def test_costs_by_trainer_model_and_task(planned: Callable[..., Plan], home: Home) -> None:
    like = {"trainer": "embedded", "scale": "laptop", "iterations": 20}
    costs = {"sokoban": [10.0, 10.0, 40.0], "frozenlake": [5.0]}
    note(home, *({**like, "cost": {"task.name": task}, "wall": wall} for task in costs for wall in costs[task]))
    plan = planned()
    kinds = {(kind.model, kind.task): kind for kind in plan.kinds}
    assert len(kinds) == 4 and all(kind.runs == 2 for kind in kinds.values())
    assert kinds["qwen2.5-7b", "sokoban"].p50 == 10.0 and kinds["qwen2.5-7b", "sokoban"].p90 == pytest.approx(34.0)
    assert kinds["qwen2.5-0.5b", "frozenlake"].p90 == 5.0
    assert plan.to_json()["cost"]["kinds"][0]["p50"] == 10.0
    assert "if all are as slow as the slowest 10 %" in plan.render() and "p90" in plan.render(verbose=True)


def test_runs_in_progress_are_measured(planned: Callable[..., Plan], home: Home) -> None:
    """An interrupted run that made 10 iterations in 50 s tells what its own rest, and its like, will cost."""
    text = "title: t\nmatrix: {seed: [0, 1]}"
    run = planned(text).rows[0].run
    paths = create(home.create(), run, "t")
    attempt = paths.attempt(1)
    attempt.root.mkdir(parents=True)
    facts = {"run": run.id, "attempt": 1, "restored_step": None, "time": 1000.0}
    attempt.meta.write_bytes(to_checked_json(facts))
    ended = {"run": run.id, "outcome": "interrupted", "step": 10, "time": 1050.0}
    attempt.outcome.write_bytes(to_checked_json(ended))
    attempt.events.write_text("")
    os.utime(attempt.events, (1050.0, 1050.0))
    plan = planned(text)
    iterations = plan.rows[0].to_json()["iterations"]
    assert [row.seconds for row in plan.rows] == [5.0 * (iterations - 10), 5.0 * iterations]
    assert plan.basis() == "measured on earlier runs here, if none stops early"


def test_history_that_is_damaged_or_odd(home: Home) -> None:
    assert History.read(home.history).rates == {}
    note(home, '{"torn": ', "[1]", "null", line(float("nan")), line(5.0, iterations=0), {"wall": "x"}, line(-1.0))
    note(home, line(30.0), '{"trainer": "embedded"')
    history = History.read(home.history)
    run = build_run(["task=sokoban", "model=qwen2.5-0.5b", "algorithm=grpo", "train.iterations=10"])
    assert history.seconds(run, 0) == 30.0
    assert history.seconds(run, 99) == 0.0, "beyond the end nothing is left"


def test_prepared_work_is_not_counted_again(planned: Callable[..., Plan], home: Home) -> None:
    note(home.create(), line(10.0))
    plan = planned(OTHER_BASES)
    keys = list(dict.fromkeys(row.run.prepare[0] for row in plan.rows if row.run.prepare))
    note(home, {"prepare": f"prepare:embedded:{keys[0]}", "title": "a", "wall": 12.0})
    assert len(planned(OTHER_BASES).preparations) == 2, "its cache is gone"
    (home.cache / "bases" / keys[0]).mkdir(parents=True)
    later = planned(OTHER_BASES)
    assert len(later.preparations) == 1
    assert plan.work_seconds is not None and later.work_seconds is not None
    assert plan.work_seconds - later.work_seconds == pytest.approx(2 * DEFAULT_PREPARE_SECONDS - 12.0)


def test_the_longest_run_bounds_the_wall_time(planned: Callable[..., Plan]) -> None:
    plan = planned(TEXT, "filter=none", "task=sokoban", "matrix.variant=[small]", jobs=8)
    assert plan.wall_seconds == plan.work_seconds


def test_runs_of_several_files_are_counted_once(tmp_path: Path, home: Home) -> None:
    (tmp_path / "a.yaml").write_text(TEXT)
    (tmp_path / "b.yaml").write_text(TEXT.replace("[0]", "[0, 1]"))
    plan = make_plan(load_experiments([tmp_path / "a.yaml", tmp_path / "b.yaml"]), home)
    assert len(plan.rows) == 16
    assert [row.experiments for row in plan.rows[:8]] == [("a", "b")] * 8
    assert [line.split() for line in plan.render().splitlines()[:5]] == [
        ["artifact", "file", "runs", "done", "to", "do", "shared"],
        ["a", "8", "0", "8", "8"],
        ["b", "16", "0", "16", "8"],
        [],
        "2 files ask for 24 runs, 16 different ones: 8 are shared and done once".split(),
    ]
    assert plan.to_json()["shared"] == 8
    assert plan.render(verbose=True).count("A small matrix") == 2


def test_matrix_view(planned: Callable[..., Plan]) -> None:
    lines = planned().render().splitlines()
    assert lines[:5] == [
        "A small matrix  [matrix · laptop]",
        "in each cell filter: none top_p, seed: 0",
        "  variant \\ task  sokoban  frozenlake",
        "  small           ··       ··",
        "  large           ··       ··",
    ]
    assert "0/40" in planned(TEXT, "matrix.seed=range(20)").render(), "too many to draw one by one"
    assert "  sokoban    ·" in planned("title: t\nmatrix: {task: [sokoban, countdown], seed: [0]}").render()
    assert "·" in planned("title: t").render(), "a single run has no axes"


def test_a_matrix_that_is_too_wide_is_turned(planned: Callable[..., Plan]) -> None:
    text = """
title: t
base: {trainer: script, script.command: "python -c pass"}
matrix: {arm: [a, b], width: "range(100, 160)", seed: [0]}
"""
    lines = planned(text).render().splitlines()
    assert "  width \\ arm  a  b" in lines and "  159          ·  ·" in lines


def test_matrix_view_of_zipped_axes(planned: Callable[..., Plan]) -> None:
    """Columns are in the order of the file, and no line says that a zipped axis varies within a cell."""
    text = (
        "title: t\nmatrix: {model: [qwen2.5-3b, qwen2.5-0.5b], filter: [top_p, none], algorithm: [ppo, grpo], "
        "seed: [0]}\nzip: [[model, algorithm]]\n"
    )
    assert planned(text).render().splitlines()[1:6] == [
        "in each cell seed: 0",
        "given by the cell: algorithm",
        "  model \\ filter  top_p  none",
        "  qwen2.5-3b      ·      ·",
        "  qwen2.5-0.5b    ·      ·",
    ]
    text = "title: t\nmatrix: {model: [qwen2.5-3b, qwen2.5-0.5b], filter: [top_p, none]}\n"
    text += "exclude: [{model: qwen2.5-3b, filter: top_p}]"
    assert "  model \\ filter  top_p  none" in planned(text).render().splitlines()


def test_a_cell_that_shares_a_run_shows_its_state(planned: Callable[..., Plan], home: Home) -> None:
    text = "title: t\nmatrix: {variant: {A: {}, B: {algorithm: ppo}}, seed: [0]}"
    finish(home, planned(text).rows[0].run)
    plan = planned(text)
    assert len(plan.rows) == 1 and plan.render().count("●") == 3, "two cells and the legend"


def test_ten_thousand_runs(planned: Callable[..., Plan]) -> None:
    plan = planned(TEXT, "matrix.seed=range(1250)")
    assert len(plan.rows) == len({row.id for row in plan.rows}) == 10_000
    assert isinstance(plan.rows[-1].run.config, dict) and isinstance(plan.experiments[0], Experiment)
