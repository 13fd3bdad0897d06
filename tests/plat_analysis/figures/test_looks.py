"""Conditions that are told apart without colour, and figures that say what they show."""

from __future__ import annotations

import re
import subprocess
import sys

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


def test_a_key_that_is_too_long_for_one_line_has_several_below_the_title():
    canvas = style.canvas(4.0, 2.0)
    names = [f"a condition {number}" for number in range(7)]
    looks = style.looks(names, names[0])
    style.key_line(canvas, [(name, looks[name]) for name in names], 0.93)
    area = style._titled(canvas, "the title")
    renderer, width = canvas.canvas.get_renderer(), canvas.bbox.width
    words = {text.get_text(): text.get_window_extent(renderer) for text in canvas.texts}
    assert all(0 <= words[name].x0 and words[name].x1 <= width for name in names)
    assert not any(words[a].overlaps(words[b]) for a in words for b in words if a < b)
    assert max(words[name].y1 for name in names) < words["the title"].y0
    assert words["the title"].y1 <= area.y1 * canvas.dpi
    assert len({round(words[name].y0) for name in names}) == 3 and words[names[-1]].y0 < words[names[0]].y0


@pytest.mark.parametrize(
    ("axis", "name"),
    [("algorithm.kl_coef", "KL coefficient"), ("task.some_new_key", "some new key"), ("variant", "variant")],
)
def test_axes_have_names_for_people(axis, name):
    assert axis_label(axis) == name


def test_a_number_is_named_with_its_axis():
    assert value_label("model.base.seed", "0") == "build 0" and value_label("task", "sokoban") == "Sokoban"


def test_a_pdf_embeds_the_fonts_that_journals_ask_for():
    """In a process of its own: the suite draws with fonts that are embedded faster."""
    code = "from plat_analysis.artifact import Figure\nfrom plat_analysis.figures import style\nimport sys\n"
    code += "drawn = Figure('x', 'A title', lambda: style.canvas(2, 2))\n"
    code += "sys.stdout.buffer.write(style.images(drawn)['pdf'])"
    pdf = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert b"/CIDFontType2" in pdf and b"/Type3" not in pdf
