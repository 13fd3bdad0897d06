"""Panels of several metrics: their points are the store's numbers, and what cannot be drawn is refused."""

from __future__ import annotations

import pytest

from plat.errors import SpecError
from plat_analysis.figures.learning_curves import build_panels
from plat_analysis.figures.style import images
from plat_analysis.plugins.entry_checking import check_entries

METRICS = {"Success": "success", "Retrieval": "mi/first_turn/retrieval_acc"}


def test_points_are_the_values_in_the_store(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO", "GRPO"], tasks=["sokoban"], seeds=range(4))
    frames = make_frames(experiment, holes={experiment.runs[0].id: "failed:oom"})
    (figure,) = build_panels(frames, experiment, metrics=METRICS, rows="variant")
    stored = {(m.run_id, m.key, m.step): m.value for m in frames.metrics.itertuples()}
    assert {point["shown"] for point in figure.points} == set(METRICS)
    for point in figure.points:
        assert stored[point["run_id"], point["metric"], point["step"]] == point["value"]
    svg, png = map(images(figure).get, ("svg", "png"))
    assert png.startswith(b"\x89PNG") and 'id="line-0"' in svg.decode()


def test_a_metric_that_nobody_logs_is_said(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    (figure,) = build_panels(make_frames(experiment), experiment, metrics={"Length": "rollout/respons_tokens"})
    assert "No run logged 'rollout/respons_tokens'" in figure.caption
    assert images(figure)["png"].startswith(b"\x89PNG")


@pytest.mark.parametrize("metrics, what", [({}, "name each panel"), ({"A": "rollout/entropi"}, "entropi")])
def test_what_cannot_be_drawn_is_refused_beforehand(make_experiment, metrics, what):
    from dataclasses import replace

    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    entry = {"builder": "metric_panels", "metrics": metrics}
    with pytest.raises(SpecError, match=what):
        check_entries(replace(experiment, report=[entry]))
