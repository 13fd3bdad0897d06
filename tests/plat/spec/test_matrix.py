"""Expansion of the matrix against a slow reference, and its limit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from plat.errors import SpecError
from plat.spec.expansion.matrix import Axis, AxisValue, Matrix, Row

HEAD = "title: t\n"


def axis(name: str, labels: list[Any]) -> Axis:
    return Axis(name, tuple(AxisValue(label, ()) for label in labels), "f.yaml:1:1")


def rows(matrix: Matrix) -> list[dict[str, Any]]:
    return [{name: value.label for name, value in cell.items()} for cell in matrix.cells()]


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.booleans(),
    st.lists(st.dictionaries(st.integers(0, 3), st.lists(st.integers(0, 2), min_size=1, unique=True)), max_size=3),
    st.lists(st.dictionaries(st.integers(0, 3), st.lists(st.integers(0, 9), min_size=1, unique=True)), max_size=2),
)
@settings(max_examples=150, deadline=None)
def test_expansion_equals_the_slow_one(
    lengths: list[int], zipped: bool, excluded: list[dict[int, list[int]]], included: list[dict[int, list[int]]]
) -> None:
    names = [f"a{index}" for index in range(len(lengths))]
    zips: tuple[tuple[str, ...], ...] = ()
    if zipped and len(lengths) >= 3:
        lengths[2] = lengths[0]
        zips = (("a0", "a2"),)
    axes = {name: axis(name, list(range(length))) for name, length in zip(names, lengths, strict=True)}

    def row(given: dict[int, list[int]]) -> dict[str, list[int]]:
        return {f"a{index}": labels for index, labels in given.items() if index < len(lengths)}

    drop = [labels for choice in excluded if (labels := row(choice))]
    add = [row(choice) for choice in included]
    made = Matrix(
        tuple(axes.values()),
        zips,
        tuple(Row({name: axis(name, labels).values for name, labels in choice.items()}, "") for choice in add),
        tuple(Row({name: axis(name, labels).values for name, labels in choice.items()}, "") for choice in drop),
    )
    expected = []
    for labels in itertools.product(*(range(length) for length in lengths)):
        cell = dict(zip(names, labels, strict=True))
        if zips and cell["a0"] != cell["a2"]:
            continue
        if not any(all(cell[name] in some for name, some in choice.items()) for choice in drop):
            expected.append(cell)
    for choice in add:
        choices = [choice.get(name, list(range(length))) for name, length in zip(names, lengths, strict=True)]
        expected += [dict(zip(names, labels, strict=True)) for labels in itertools.product(*choices)]
    assert rows(made) == expected or (zips and sorted(map(str, rows(made))) == sorted(map(str, expected)))
    assert made.size() >= len(expected)


def test_no_axes_is_one_run(load: Callable[..., Any]) -> None:
    experiment = load(HEAD + "base: {task: frozenlake, seed: 3}")
    assert [run.config["seed"] for run in experiment.runs] == [3]
    assert experiment.axes == {} and experiment.runs[0].axes == {"seed": 3}


def test_zip_include_exclude_in_a_file(load: Callable[..., Any]) -> None:
    experiment = load(
        HEAD
        + """
matrix:
  task: [sokoban, frozenlake]
  model: [qwen2.5-0.5b, qwen2.5-7b]
  seed: [0, 1]
zip: [[task, model]]
exclude: [{task: frozenlake, seed: 1}]
include:
  - {task: countdown, model: qwen2.5-3b, seed: [5, 6]}
  - {task: sokoban, model: qwen2.5-0.5b, seed: 0, train.lr: 1e-2}
"""
    )
    positions = [(run.axes["task"], run.axes["model"], run.axes["seed"]) for run in experiment.runs]
    assert positions == [
        ("sokoban", "qwen2.5-0.5b", 0),
        ("sokoban", "qwen2.5-0.5b", 1),
        ("frozenlake", "qwen2.5-7b", 0),
        ("countdown", "qwen2.5-3b", 5),
        ("countdown", "qwen2.5-3b", 6),
        ("sokoban", "qwen2.5-0.5b", 0),
    ]
    assert experiment.runs[-1].config["train"]["lr"] == 0.01 and experiment.runs[-1].axes["train.lr"] == 0.01


def test_a_zipped_axis_may_repeat_values(load: Callable[..., Any]) -> None:
    axes = "matrix: {filter.value: [0.5, 0.9, 1.0], train.iterations: [80, 40, 40], seed: [0]}\n"
    text = f"{HEAD}base: {{filter: top_p}}\n{axes}zip: [[%s]]"
    runs = load(text % "filter.value, train.iterations").runs
    pairs = [(run.axes["filter.value"], run.config["train"]["iterations"]) for run in runs]
    assert pairs == [(0.5, 80), (0.9, 40), (1.0, 40)]


def test_variants_are_bundles_of_overrides(load: Callable[..., Any]) -> None:
    experiment = load(
        HEAD
        + """
matrix:
  variant: {PPO: {}, GRPO fast: {algorithm: grpo, train: {lr: 1e-2}}, Plain: }
  seed: range(2)
"""
    )
    assert experiment.axes == {"variant": ["PPO", "GRPO fast", "Plain"], "seed": [0, 1]}
    fast = [run for run in experiment.runs if run.axes["variant"] == "GRPO fast"]
    assert {run.config["train"]["lr"] for run in fast} == {0.01} and fast[0].config["algorithm"]["advantage"] == "grpo"


def test_equal_runs_are_one_run_at_two_positions(load: Callable[..., Any]) -> None:
    experiment = load(HEAD + "matrix: {variant: {A: {}, B: {algorithm: ppo}}, seed: [0]}")
    assert len(experiment.runs) == 1 and len(experiment.cells) == 2
    assert [labels["variant"] for labels, _ in experiment.cells] == ["A", "B"]
    assert len({run_id for _, run_id in experiment.cells}) == 1


def test_a_product_of_a_million_is_refused_before_it_is_made(refused: Callable[..., SpecError]) -> None:
    ten = list(range(10))
    keys = ["seed", "train.iterations", "eval.instances", "mi.every", "train.checkpoint_every", "eval.every"]
    text = yaml.safe_dump({"title": "t", "matrix": {key: [number + 1 for number in ten] for key in keys}})
    error = refused(text)
    assert "1,000,000 runs" in error.what and "100,000" in str(error.fix)
    assert "1,000,000,000" in refused(HEAD + "matrix: {seed: [0]}", "matrix.seed=range(1000000000)").what
    assert "runs" in refused(HEAD + "matrix: {seed: range(50000)}", "matrix.train.lr=[1,2,3]").what
