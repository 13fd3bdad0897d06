"""Arrows from the base model to the end: means of first and last values, by family."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from plat.errors import SpecError
from plat_analysis.figures.style import images
from plat_analysis.plugins.entry_checking import check_entries
from plat_ragen2.figures.metric_plane import build_arrows

RETRIEVAL = "mi/first_turn/retrieval_acc"
FAMILIES = {"filtered": ["top_p"], "not": ["none"]}


def test_arrows_go_from_the_first_to_the_last_mean(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(4))
    frames = make_frames(experiment)
    (figure,) = build_arrows(frames, experiment, conditions="filter", families=FAMILIES, metrics={"MI": RETRIEVAL})
    found = {(p["condition"], p["axis"], p["at"]): p["value"] for p in figure.points}
    for condition in ("none", "top_p"):
        for axis, key, factor in (("x", RETRIEVAL, 1), ("y", "val/success", 100)):
            curves = []
            for run in experiment.runs:
                own = frames.metrics[(frames.metrics.run_id == run.id) & (frames.metrics.key == key)]
                if run.axes["filter"] == condition:
                    curves.append(own.sort_values("step").value.to_numpy())
            for at, index in (("start", 0), ("end", -1)):
                mean = factor * np.mean([curve[index] for curve in curves])
                assert found[condition, axis, at] == pytest.approx(mean)
    svg, png = map(images(figure).get, ("svg", "png"))
    assert png.startswith(b"\x89PNG") and 'id="arrow-1"' in svg.decode()


def test_a_run_that_is_missing_leaves_the_others(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    frames = make_frames(experiment, holes={run.id: "failed:oom" for run in experiment.runs[:1]})
    (figure,) = build_arrows(frames, experiment, conditions="filter", families=FAMILIES, metrics={"MI": RETRIEVAL})
    assert images(figure)["png"].startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "families, what", [({"a": ["top_p"]}, "'none' is in none"), ({"a": ["top_q", "none", "top_p"]}, "'top_q'")]
)
def test_families_hold_every_condition(make_experiment, families, what):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    entry = {"builder": "arrows", "conditions": "filter", "families": families, "metrics": {"MI": RETRIEVAL}}
    with pytest.raises(SpecError, match=what):
        check_entries(replace(experiment, report=[entry]))
