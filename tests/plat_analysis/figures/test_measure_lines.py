"""A measure over an ordered axis against a slow computation, beside what the paper prints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from plat.errors import SpecError
from plat_analysis.figures.changes import build_lines
from plat_analysis.figures.style import images

PRINTED = {"rows": {"sokoban": {"none": 12.9, "top_p": 28.9}, "frozenlake": {"none": 67.0}}}
MEASURE = {"metric": "success", "median_of_last": 3}


@pytest.fixture
def drawn(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban", "frozenlake"], seeds=range(4))
    experiment = replace(experiment, source="Figure 9", paper_data={"tables": {"figure9": PRINTED}})
    frames = make_frames(experiment, holes={experiment.runs[0].id: "failed:oom"})
    (figure,) = build_lines(frames, experiment, columns="task", rows="variant", measure=MEASURE)
    return experiment, frames, figure


def medians(experiment, frames, **axes):
    values = []
    for run in experiment.runs:
        if axes.items() <= run.axes.items():
            own = frames.metrics[(frames.metrics.run_id == run.id) & (frames.metrics.key == "val/success")]
            values.append(100 * np.median(own.sort_values("step")["value"].to_numpy()[-3:]))
    return np.array(values)


def test_points_are_medians_over_seeds_and_their_paired_change(drawn):
    experiment, frames, figure = drawn
    points = {(p["column"], p["condition"], p["change"]): p for p in figure.points}
    none = medians(experiment, frames, task="sokoban", filter="none")[1:]  # the first run failed
    treated = medians(experiment, frames, task="sokoban", filter="top_p")
    assert points["sokoban", "none", False]["value"] == pytest.approx(none.mean())
    assert points["sokoban", "top_p", False]["value"] == pytest.approx(treated.mean())
    assert points["sokoban", "", True]["value"] == pytest.approx((treated[1:] - none).mean())
    assert "failed:oom" in points["sokoban", "", True]["note"] and points["sokoban", "", True]["seeds"] == 3


def test_the_paper_is_drawn_where_it_prints_something(drawn):
    _, _, figure = drawn
    papers = {(p["column"], p["condition"]): p["paper"] for p in figure.points}
    assert papers["sokoban", ""] == 16.0 and papers["sokoban", "top_p"] == 28.9
    assert papers["frozenlake", "none"] == 67.0 and papers["frozenlake", ""] is None
    files = images(figure)
    assert files["png"].startswith(b"\x89PNG") and files["pdf"].startswith(b"%PDF")
    assert all(f'id="{gid}"' in files["svg"].decode() for gid in figure.titles)


def test_a_side_without_runs_is_refused(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    with pytest.raises(SpecError, match="has no value 'top_q'"):
        build_lines(make_frames(experiment), experiment, columns="task", treatment="top_q")
