"""`plat diff`: the values in which runs differ, and their curves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plat.cli.result import print_result
from plat.cli.screen.report_text import HEIGHT, plot


@pytest.fixture
def two(executed):
    return [executed(seed=0, iterations=6), executed(seed=1, iterations=4)]


def test_exactly_the_values_that_differ_are_listed(plat, two):
    code, out, err = plat("diff", two[0].id, two[1].id, "--json")
    listed = json.loads(out)
    assert (code, err) == (0, "") and listed["differences"] == {"seed": [0, 1], "train.iterations": [6, 4]}
    assert [run["id"] for run in listed["runs"]] == [paths.id for paths in two]
    curve = listed["curves"]["val/success"][listed["runs"][0]["run"]]
    assert [step for step, _ in curve] == list(range(7))


def test_the_text_names_the_runs_whole_and_draws_a_letter_each(plat, two, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = plat("diff", *(paths.id[:8] for paths in two))
    assert code == 0 and all(json.loads(paths.meta.read_text())["name"] in out for paths in two)
    assert "train.iterations" in out and "val/success" in out and "2 values differ" in out
    drawing = out[out.index("val/success") :]
    assert "a" in drawing and "b" in drawing and "\x1b" not in out
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_picture(plat, two, tmp_path, kind, magic):
    picture = tmp_path / f"curves.{kind}"
    assert plat("diff", two[0].id, two[1].id, "--metric", "walk/norm", "--out", picture)[0] == 0
    assert picture.read_bytes().startswith(magic)


@pytest.mark.parametrize(
    ("more", "hint"),
    [
        ([], "compares two runs"),
        (["{1}", "--metric", "walk/nrm"], "did you mean 'walk/norm'"),
        (["{1}", "--out", "curves.gif"], ".png, .svg, .pdf"),
        (["{1}", "--out", "no/where.png"], "the folder no does not exist"),
        (["nothing-1234"], "no run 'nothing-1234'"),
    ],
)
def test_wrong_calls(plat, two, more, hint):
    code, out, err = plat("diff", two[0].id, *(text.format(*(paths.id for paths in two)) for text in more))
    assert (code, out) == (2, "") and hint in err


def test_runs_can_be_chosen_by_conditions(plat, two):
    code, out, _ = plat("diff", "--where", "state=done", "--json")
    differing = {key: sorted(values) for key, values in json.loads(out)["differences"].items()}
    assert code == 0 and differing == {"seed": [0, 1], "train.iterations": [4, 6]}


@pytest.mark.parametrize(
    "value, least, most", [(0.0, "0.00┤a", "1.00┤"), (0.25, "0.000┤", "0.250┤a"), (-2.0, "-2.00┤a", "0.00┤")]
)
def test_a_flat_line_has_zero_at_an_end_of_its_axis_and_whole_iterations(value, least, most):
    lines = plot("val/success", {"a": [(0, value), (1, value), (2, value)]}, 60).splitlines()
    axis = [line for line in lines if "┤" in line]
    assert axis[0].strip().startswith(most) and axis[-1].strip().startswith(least)
    assert lines[-2].split() == ["0", "1", "2"]


def test_values_that_are_no_numbers_are_left_out_of_a_plot():
    assert plot("nothing", {"a": [(0, float("nan"))], "b": []}, 80) == ""
    lines = plot("loss", {"a": [(0, 1.0), (1, float("nan")), (2, 3.0)], "b": []}, 60).splitlines()
    assert len(lines) == HEIGHT and all(len(line) <= 60 for line in lines)


def test_json_has_null_for_what_is_no_number(capsys):
    print_result({"curve": [1.5, float("nan")], "most": (float("inf"),), "where": Path("a")})
    assert json.loads(capsys.readouterr().out) == {"curve": [1.5, None], "most": [None], "where": "a"}
