"""Gradients by bucket against a slow mean, and what cannot be drawn is refused beforehand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from plat.errors import SpecError
from plat.spec.expansion.experiment import load_experiment
from plat_analysis.figures.style import images
from plat_analysis.plugins.entry_checking import check_entries
from plat_ragen2.figures.gradient_buckets import build

FILE = """
title: t
base: {{task: sokoban, {base}}}
matrix: {{algorithm: [ppo, grpo], seed: range(3)}}
report: [{{builder: gradient_buckets, rows: algorithm, moments: {moments}}}]
"""
PROBED = "gradient.times: 3, gradient.buckets: 2"
NAMES = ("task", "null_task", "regulariser", "halves_cosine", "null_cosine")
NAMES += ("reward_std_mean", "reward_std_min", "reward_std_max")


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(FILE.format(base=PROBED, moments="[1, 5]"))
    return load_experiment(path)


def frames_of(make_frames, experiment, names=NAMES):
    """Every metric of two buckets at iterations 1, 3 and 6, drawn at random."""
    rng = np.random.default_rng(0)
    rows = [
        (run.id, f"grad/q{bucket}/{name}", step, rng.uniform(0.1, 2))
        for run in experiment.runs
        for bucket in (1, 2)
        for name in names
        for step in (1, 3, 6)
    ]
    return replace(make_frames(experiment), metrics=pd.DataFrame(rows, columns=["run_id", "key", "step", "value"]))


def test_dots_are_means_of_the_last_measurement_so_far(experiment, make_frames):
    frames = frames_of(make_frames, experiment)
    paper = {"tables": {"f": {"rows": {"grpo": {"Q1": {"task": 3.3}, "Q2": {"task": 8.9}}}}}}
    (figure,) = build(frames, replace(experiment, paper_data=paper), rows="algorithm", moments=[1, 5], paper="f")
    columns = {("task", ""): "task", ("task", "permuted rewards"): "null_task", ("regulariser", ""): "regulariser"}
    columns |= {("agreement", ""): "halves_cosine", ("agreement", "permuted rewards"): "null_cosine"}
    columns[("reward spread", "")] = "reward_std_mean"
    assert len(figure.points) == 2 * 6 * 2 * 2
    m = frames.metrics
    for p in figure.points:
        ids = [run.id for run in experiment.runs if run.axes["algorithm"] == p["row"]]
        key = f"grad/q{p['bucket'][1]}/"
        step = {"1": 1, "5": 3}[p["iteration"]]
        own = m[m.run_id.isin(ids) & (m.step == step)]
        assert p["value"] == pytest.approx(own[own.key == key + columns[p["measure"], p["null"]]].value.mean())
        if p["measure"] == "reward spread":
            assert p["largest"] == pytest.approx(own[own.key == key + "reward_std_max"].value.mean())
    printed = {(p["row"], p["bucket"], p["measure"]): p["paper"] for p in figure.points if not p["null"]}
    assert printed["grpo", "Q2", "task"] == 8.9 and printed["ppo", "Q2", "task"] is None
    svg, png = map(images(figure).get, ("svg", "png"))
    assert png.startswith(b"\x89PNG") and all(f'id="{gid}"' in svg.decode() for gid in figure.titles)


def test_what_was_not_measured_is_left_out_and_said(experiment, make_frames):
    (figure,) = build(frames_of(make_frames, experiment, ["task"]), experiment, rows="algorithm", moments=[1])
    assert {p["measure"] for p in figure.points} == {"task"}
    assert "not measured" in images(figure)["svg"].decode()
    (figure,) = build(frames_of(make_frames, experiment, []), experiment, rows="algorithm", moments=[1])
    assert not figure.points and images(figure)["png"]


@pytest.mark.parametrize(
    "base, moments, what",
    [
        (PROBED, "[]", "not a list of training iterations"),
        (PROBED, "[0]", "not a list of training iterations"),
        (PROBED, "[end]", "moments: "),
        ("gradient.times: 0", "[1]", "is not probed"),
    ],
)
def test_what_cannot_be_drawn_is_refused_beforehand(tmp_path, base, moments, what):
    path = tmp_path / "x.yaml"
    path.write_text(FILE.format(base=base, moments=moments))
    with pytest.raises(SpecError, match=what):
        check_entries(load_experiment(path))


def test_runs_of_several_buckets_are_refused(tmp_path):
    path = tmp_path / "x.yaml"
    text = FILE.format(base="gradient.times: 3", moments="[1]")
    path.write_text(text.replace("seed: range(3)", "gradient.buckets: [2, 6], seed: [0]"))
    with pytest.raises(SpecError, match="2 and 6 buckets"):
        check_entries(load_experiment(path))
