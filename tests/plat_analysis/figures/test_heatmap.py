"""A heatmap against a slow mean, beside what the paper prints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from plat.errors import SpecError
from plat_analysis.figures.heatmap import build
from plat_analysis.figures.style import images
from plat_analysis.plugins.entry_checking import check_entries

PRINTED = {"rows": {"10": {"none": 9.1, "top_p": 11.7}, "50": {"none": 9.4}}}


def test_cells_are_means_of_the_last_measurement_so_far(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(3))
    experiment = replace(experiment, source="Heatmap", paper_data={"tables": {"heatmap": PRINTED}})
    frames = make_frames(experiment, holes={experiment.runs[0].id: "failed:oom"})
    steps = sorted(frames.metrics[frames.metrics.key == "val/success"].step.unique())
    asked = [int(steps[1]), int(steps[2]) + 1]
    (figure,) = build(frames, experiment, conditions="filter", steps=asked, paper_steps=[10, 50])
    cells = {(p["row"], p["step"], p["condition"]): p["value"] for p in figure.points}
    for step, at in zip(asked, (steps[1], steps[2]), strict=True):
        for condition in ("none", "top_p"):
            own = [r.id for r in experiment.runs[1:] if r.axes["filter"] == condition]
            m = frames.metrics
            values = m[m.run_id.isin(own) & (m.key == "val/success") & (m.step == at)].value
            assert cells["", step, condition] == pytest.approx(100 * np.mean(values))
    assert cells["published", 10, "top_p"] == 11.7 and cells["published", 50, "top_p"] is None
    svg, png = map(images(figure).get, ("svg", "png"))
    assert png.startswith(b"\x89PNG") and all(f'id="{gid}"' in svg.decode() for gid in figure.titles)


@pytest.mark.parametrize("steps", [[], [-1], [0.5], ["ten"]])
def test_what_is_no_step_is_refused_beforehand(make_experiment, steps):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    with pytest.raises(SpecError, match="step"):
        check_entries(replace(experiment, report=[{"builder": "heatmap", "conditions": "filter", "steps": steps}]))
