"""One key decided in two places: what is refused, where the message points, and what stays allowed."""

from __future__ import annotations

import pytest

HEAD = "title: t\n"
REFUSED = {
    "a bundle and an axis set the seed": (
        "matrix:\n  variant: {A: {seed: 3}, B: {seed: 4}}\n  seed: [0, 1]\n",
        "variant 'A' sets seed, and so does the axis seed",
        "3:17",
    ),
    "the axis first, the bundle after it": (
        "matrix:\n  seed: [0, 1]\n  variant: {A: {}, B: {seed: 4}}\n",
        "variant 'B' sets seed, and so does the axis seed",
        "4:24",
    ),
    "two bundles set one key": (
        "matrix:\n  variant: {A: {train.lr: 0.1}}\n  step: {small: {train: {lr: 0.2}}}\n",
        "sets train.lr, and so does the axis",
        "4:26",
    ),
    "an included row sets what its variant sets": (
        "matrix:\n  variant: {A: {train.lr: 0.1}, B: {}}\ninclude:\n  - {variant: A, train.lr: 0.5}\n",
        "variant 'A' sets train.lr, and so does the axis train.lr",
        "3:17",
    ),
    "an axis overrides base": (
        "base: {seed: 3}\nmatrix:\n  seed: [0, 1]\n",
        "base sets seed, and the axis seed overrides it in every run",
        "2:8",
    ),
    "a group and another name": (
        "base: {task: frozenlake, task.name: sokoban}\n",
        "task selects 'frozenlake' with its options, but task.name sets another name",
        "2:26",
    ),
    "a group in base and another name in a bundle": (
        "base: {task: frozenlake}\nmatrix:\n  variant: {A: {task.name: sokoban}}\n",
        "task selects 'frozenlake'",
        "4:17",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_contradictions_are_refused_with_their_place(refused, case):
    text, what, place = REFUSED[case]
    error = refused(HEAD + text)
    assert what in error.what and error.where.endswith(f".yaml:{place}") and error.fix


@pytest.mark.parametrize(
    ("text", "override", "what"),
    [
        ("matrix:\n  variant: {A: {seed: 3}, B: {seed: 4}}\n", "matrix.seed=[0,1]", "so does the axis seed"),
        ("matrix:\n  task: [sokoban, frozenlake]\n", "task.name=sokoban", "another name"),
    ],
)
def test_so_are_contradictions_with_the_command_line(refused, text, override, what):
    assert what in refused(HEAD + text, override).what


def test_a_named_bundle_may_change_what_base_sets(load):
    made = load(HEAD + "base: {algorithm: ppo}\nmatrix:\n  variant: {PPO: {}, GRPO: {algorithm: grpo}}\n")
    assert len(made.runs) == 2


def test_the_command_line_may_change_what_the_file_sets(load):
    assert load(HEAD + "base: {seed: 3}\n", "seed=5").runs[0].config["seed"] == 5
    assert len(load(HEAD + "base: {seed: 3}\n", "matrix.seed=range(2)").runs) == 2
    assert load(HEAD + "matrix: {seed: [0, 1]}\n", "seed=7").axes == {"seed": [7]}


def test_an_option_of_a_group_may_be_changed_beside_the_group(load):
    assert load(HEAD + "base: {task: sokoban, task.turns: 9}\n").runs[0].config["task"]["turns"] == 9
