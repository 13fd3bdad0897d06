"""Experiment files as a whole: precedence, trainers, overrides of axes, and the files that ship with plat."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from plat.errors import SpecError
from plat.spec.expansion.experiment import Experiment, build_run, config_object, load_experiment, load_experiments
from plat_rl.embedded.spec import EmbeddedTrainer
from plat_rl.run_config import RunConfig

Load = Callable[..., Experiment]
SHIPPED = Path(__file__).parents[3] / "experiments"
GRID = """
title: t
base: {train.lr: 1e-2, algorithm: grpo}
matrix:
  variant: {plain: {}, fast: {train.lr: 1e-1}}
  filter: [none, top_p]
  seed: [0, 1]
"""


def test_precedence(load: Load) -> None:
    rates = {run.axes["variant"]: run.config["train"]["lr"] for run in load(GRID).runs}
    assert rates == {"plain": 1e-2, "fast": 1e-1}, "an axis wins over base, base over the scale"
    only = load(GRID, "matrix.variant=[plain]", "train.lr=5e-3", "model=qwen2.5-7b")
    assert {run.config["train"]["lr"] for run in only.runs} == {5e-3}, "the command line wins over base"
    assert {run.config["model"]["name"] for run in only.runs} == {"qwen2.5-7b"}
    assert {run.config["algorithm"]["name"] for run in only.runs} == {"grpo"}


def test_scale_wins_over_other_groups_and_keys_win_over_scale() -> None:
    assert build_run(["model=qwen2.5-7b", "scale=smoke"]).config["model"]["shape"]["width"] == 16
    assert build_run(["scale=smoke", "model.shape.width=8"]).config["model"]["shape"]["width"] == 8


def test_overrides_of_axes_replace_their_values(load: Load) -> None:
    for override in ("filter=top_p", "matrix.filter=[top_p]", "matrix.filter=top_p"):
        experiment = load(GRID, override)
        assert experiment.axes["filter"] == ["top_p"] and len(experiment.runs) == 4
    assert load(GRID, "seed=5,6,7").axes["seed"] == [5, 6, 7]
    assert load(GRID, "matrix.seed=range(4)").axes["seed"] == [0, 1, 2, 3]
    wide = load(GRID, "matrix.model=[qwen2.5-0.5b,qwen2.5-7b]")
    assert wide.axes["model"] == ["qwen2.5-0.5b", "qwen2.5-7b"] and len(wide.runs) == 16


def test_a_narrowed_axis_keeps_exclude_and_include_rows_valid(load: Load) -> None:
    text = GRID + "exclude: [{variant: fast, seed: 1}]\ninclude: [{variant: plain, filter: min_p, seed: 9}]\n"
    assert len(load(text).runs) == 7
    assert len(load(text, "matrix.variant=[plain]").runs) == 5
    assert len(load(text, "matrix.seed=[0]").runs) == 5
    assert [run.axes["variant"] for run in load(text, "matrix.variant=[fast]", "matrix.seed=[0]").runs] == ["fast"] * 2


def test_the_same_run_in_two_files_is_one_run(write: Callable[[str], Path]) -> None:
    first, second = load_experiments([write(GRID), write(GRID.replace("[0, 1]", "[1, 2]"))])
    shared = {run.id: run.name for run in first.runs}.items() & {run.id: run.name for run in second.runs}.items()
    assert len(shared) == 4


def test_what_a_run_says(load: Load) -> None:
    run = load(GRID).runs[-1]
    assert run.axes == {"variant": "fast", "filter": "top_p", "seed": 1}
    assert run.trainer == "embedded" and run.resources == {"threads": 1, "gpus": 0}
    assert run.prepare is None, "its base model travels with the package"
    (other,) = load(GRID, "matrix.filter=[none]", "matrix.seed=[0]", "matrix.variant=[fast]", "model.base.seed=9").runs
    assert other.prepare is not None and "stand-in" in other.prepare[1]
    trainer = EmbeddedTrainer()
    typed = config_object(run, trainer)
    assert isinstance(typed, RunConfig) and typed.train.lr == 0.1 and typed.task.env == run.config["task"]["env"]
    typed.task.env["size"] = 99
    assert run.config["task"]["env"].get("size") != 99, "a copy"
    assert config_object(yaml.safe_load(yaml.safe_dump(run.config)), trainer) == config_object(run, trainer)
    broken = {**run.config, "seed": "many"}
    with pytest.raises(SpecError, match="whole number"):
        config_object(broken, trainer)


def test_runs_do_not_leak_into_each_other(load: Load) -> None:
    experiment = load(GRID)
    before = copy.deepcopy([run.config for run in experiment.runs])
    build_run(["train.lr=3", "task=sokoban", "task.env.boxes=2"])
    assert [run.config for run in load(GRID).runs] == before == [run.config for run in experiment.runs]


# --- other trainers -------------------------------------------------------------------------------------------------


@dataclass
class Walk:
    stride: float = 0.5


@dataclass
class ToyConfig:
    trainer: str = "toy"
    seed: int = 0
    steps: int = 3
    walk: Walk = field(default_factory=Walk)
    game: str = field(default="frozenlake", metadata={"plugin": "plat.environments"})
    game_options: dict[str, Any] = field(default_factory=dict, metadata={"options_of": "game"})


def test_a_trainer_without_config_groups(load: Load, trainer: Callable[..., Any]) -> None:
    trainer(ToyConfig)
    experiment = load("title: t\nbase: {trainer: toy}\nmatrix: {walk.stride: [1, 2.5], seed: [0]}")
    assert [run.config["walk"] for run in experiment.runs] == [{"stride": 1.0}, {"stride": 2.5}]
    assert experiment.runs[0].name.startswith("stride1-s0-") and experiment.scale == ""
    with pytest.raises(SpecError, match="unknown key 'algorithm'"):
        load("title: t\nbase: {trainer: toy, algorithm: ppo}")


def test_words_of_a_file_are_no_part_of_its_runs(load: Load, trainer: Callable[..., Any]) -> None:
    trainer(ToyConfig)
    plain, told = (
        load(f"title: t\n{words}base: {{trainer: toy}}") for words in ("", "question: Why?\nprediction: 42\n")
    )
    assert (told.question, told.prediction, told.conclusion) == ("Why?", "42", "") and plain.question == ""
    assert [run.id for run in plain.runs] == [run.id for run in told.runs]


def test_plugin_options_at_the_root(trainer: Callable[..., Any]) -> None:
    trainer(ToyConfig)
    run = build_run(["trainer=toy", "game=sokoban", "game_options.boxes=2"])
    assert run.config["game_options"]["boxes"] == 2 and run.config["game_options"]["size"] == 6
    assert build_run(["trainer=toy"]).config["game_options"]["success_rate"] == 0.98
    with pytest.raises(SpecError, match="has no option 'success_rate'"):
        build_run(["trainer=toy", "game=sokoban", "game_options.success_rate=1"])


def test_the_trainer_as_an_axis(load: Load, trainer: Callable[..., Any]) -> None:
    trainer(ToyConfig)
    experiment = load("title: t\nmatrix: {trainer: [toy, embedded], seed: [4]}")
    assert [run.trainer for run in experiment.runs] == ["toy", "embedded"]
    assert [run.config["seed"] for run in experiment.runs] == [4, 4]


def test_a_config_group_may_name_the_trainer(trainer: Callable[..., Any]) -> None:
    trainer(RunConfig, "verl", conf="plat_rl.conf")
    run = build_run(["scale=paper"])
    assert run.trainer == "verl" and run.config["train"]["iterations"] == 400
    with pytest.raises(SpecError, match="compact rendering"):
        build_run(["scale=paper", "trainer=embedded"])


def test_validate_may_normalise(load: Load, trainer: Callable[..., Any]) -> None:
    def even(config: ToyConfig) -> ToyConfig:
        if config.steps % 2:
            return replace(config, steps=config.steps + 1, walk=Walk(9.0))
        return config

    trainer(ToyConfig, validate=even, fingerprint=lambda config: {"steps": config.steps})
    experiment = load("title: t\nbase: {trainer: toy, walk.stride: 9}\nmatrix: {steps: [1, 2, 3], seed: [0, 1]}")
    assert [labels["steps"] for labels, _ in experiment.cells] == [1, 1, 2, 2, 3, 3]
    assert sorted(run.config["steps"] for run in experiment.runs) == [2, 2, 4, 4], "1 and 2 are the same run"
    assert experiment.runs[0].config["walk"] == {"stride": 9.0}


def test_a_trainers_objection_is_located(load: Load, trainer: Callable[..., Any]) -> None:
    def refuse(config: ToyConfig) -> ToyConfig:
        if config.steps > 5:
            raise SpecError("too many steps", where="steps", fix="use fewer")
        return config

    trainer(ToyConfig, validate=refuse)
    with pytest.raises(SpecError) as caught:
        load("title: t\nbase: {trainer: toy}\nmatrix:\n  steps: [1, 7]\n  seed: [0]\n")
    where = str(caught.value.where)
    assert ".yaml:4:14" in where and "steps=7" in where


def test_missing_values_are_asked_for(trainer: Callable[..., Any]) -> None:
    from omegaconf import MISSING

    @dataclass
    class Needs:
        seed: int = MISSING

    trainer(Needs)
    with pytest.raises(SpecError) as caught:
        build_run(["trainer=toy"])
    assert "seed has no value" in caught.value.what and "seed=" in str(caught.value.fix)
    assert build_run(["trainer=toy", "seed=1"]).config == {"seed": 1}


# --- the files that ship with plat ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "runs"), [("table4", 72), ("table4_released", 72), ("keep_rates", 4 * 4 * 4 * 7), ("quickstart", 10)]
)
@pytest.mark.parametrize("scale", ["laptop", "smoke"])
def test_shipped_experiments(name: str, runs: int, scale: str) -> None:
    experiment = load_experiment(SHIPPED / f"{name}.yaml", [f"scale={scale}"])
    assert len(experiment.runs) == len(experiment.cells) == runs and experiment.scale == scale
    assert len({run.name for run in experiment.runs}) == runs
    assert experiment.report and experiment.paper == "ragen2" and experiment.paper_data["tables"]


def test_table4_pairs_differ_in_the_filter_only() -> None:
    pairs: dict[Any, list[dict[str, Any]]] = {}
    for run in load_experiment(SHIPPED / "table4.yaml").runs:
        pairs.setdefault((run.axes["variant"], run.axes["task"]), []).append(run.config)
    for untreated, treated in pairs.values():
        assert {key for key in untreated if untreated[key] != treated[key]} == {"filter"}


def test_released_rules_where_they_differ() -> None:
    runs = load_experiment(SHIPPED / "table4_released.yaml").runs
    by_cell = {tuple(run.axes.values()): run.config for run in runs}
    dapo = by_cell["DAPO", "sokoban", "none", 0]["algorithm"]
    ppo = by_cell["PPO", "sokoban", "none", 0]["algorithm"]
    assert {**dapo, "name": ""} == {**ppo, "name": ""}, "what the release calls DAPO is PPO"
    lake = by_cell["PPO", "frozenlake", "top_p_softmax", 0]
    assert lake["task"]["env"]["success_rate"] == 1.0 and lake["filter"]["include_zero"] is True
    assert lake["early_stop"]["variance_window"] == 10
    assert by_cell["PPO", "countdown", "none", 0]["task"]["env"]["shared_pool"] is True
    assert by_cell["PPO", "sokoban", "none", 0]["task"]["env"]["shared_pool"] is False


def test_published_numbers_are_consistent_but_for_the_known_contradiction() -> None:
    table = load_experiment(SHIPPED / "table4.yaml").paper_data["tables"]["table4"]
    wrong = []
    for row, cells in table["rows"].items():
        tasks = [cells[task] for task in table["columns"][:-1] if task in cells]
        for index, what in enumerate(("value", "delta")):
            mean = sum(cell[index] for cell in tasks) / len(tasks)
            if abs(mean - cells["average"][index]) > 0.06:
                wrong.append((row, what, round(mean, 2)))
    assert wrong == [("GRPO", "delta", 2.35)]


def test_the_ladder_keeps_the_order_of_sizes() -> None:
    def parameters(model: str) -> int:
        shape = build_run([f"model={model}"]).config["model"]["shape"]
        return shape["layers"] * shape["width"] * (4 * shape["width"] + 3 * shape["ffn"])

    sizes = [parameters(f"qwen2.5-{size}b") for size in ("0.5", "1.5", "3", "7")]
    assert sizes == sorted(sizes) and len(set(sizes)) == 4
    instruct, plain = (build_run([f"model=qwen2.5-3b{kind}"]).config["model"] for kind in ("-instruct", ""))
    assert instruct["shape"] == plain["shape"] and instruct["base"]["steps"] > plain["base"]["steps"]
