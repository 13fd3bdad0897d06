"""Conditions that are told apart without colour, and figures that say what they show."""

from __future__ import annotations

import re

import pytest

from plat_analysis.artifact import Figure
from plat_analysis.data.labels import axis_label, value_label
from plat_analysis.figures import style
from plat_analysis.figures.learning_curves import build

CONDITIONS = ["none", "top_p", "top_k", "min_p", "random", "Q1"]


def test_no_two_conditions_share_a_dash_or_a_marker():
    looks = style.looks(CONDITIONS, "none")
    assert len({str(look.dash) for look in looks.values()}) == len(CONDITIONS)
    assert len({look.marker for look in looks.values()}) == len(CONDITIONS)
    assert looks["none"].dash == "-"


@pytest.fixture
def drawn(make_experiment, make_frames) -> Figure:
    experiment = make_experiment(rows=["PPO", "GRPO"], tasks=["sokoban", "frozenlake"], seeds=range(3))
    return build(make_frames(experiment, steps=20), experiment)[0]


def test_every_figure_has_its_title_and_real_text(drawn):
    svg = style.images(drawn)["svg"].decode()
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert {drawn.title, "training iteration", "no filter", "Top-p", "Sokoban"} <= set(texts)
    assert any(text.endswith(", %") for text in texts)


def test_all_panels_of_a_figure_have_one_scale(drawn):
    figure = drawn.draw()
    assert len({axis.get_ylim() for axis in figure.axes}) == 1


def test_a_figure_is_drawn_the_same_twice(drawn):
    assert style.images(drawn) == style.images(drawn)


@pytest.mark.parametrize(
    ("axis", "name"),
    [("algorithm.kl_coef", "KL coefficient"), ("task.some_new_key", "some new key"), ("variant", "variant")],
)
def test_axes_have_names_for_people(axis, name):
    assert axis_label(axis) == name


def test_a_number_is_named_with_its_axis():
    assert value_label("model.base.seed", "0") == "build 0" and value_label("task", "sokoban") == "Sokoban"
