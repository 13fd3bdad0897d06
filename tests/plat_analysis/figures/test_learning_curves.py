"""Learning curves: a figure per metric, and captions that say what a band is."""

from __future__ import annotations

from plat_analysis.figures import learning_curves
from plat_analysis.regimes import collapse


def quickstart(make_experiment, **fields):
    return make_experiment(rows=["GRPO"], tasks=["frozenlake"], **fields)


def test_learning_curves_are_one_figure_per_metric(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO", "GRPO"], tasks=["sokoban", "countdown"])
    figures = learning_curves.BUILDER(make_frames(experiment), experiment)
    assert [f.name.rsplit("learning_curves_")[1] for f in figures] == ["success", "retrieval_acc", "entropy"]
    points = figures[0].points
    assert {point["run_id"] for point in points} == {run.id for run in experiment.runs}
    assert len(points) == 7 * len(experiment.runs)
    for figure in figures:
        panels = [axis for axis in figure.draw().axes]
        assert len(panels) == 4 and all(len(axis.lines) >= 2 for axis in panels)


def test_captions_say_what_the_band_is(make_experiment, make_frames):
    captions = {}
    for count in (1, 2, 3):
        experiment = quickstart(make_experiment, seeds=range(count))
        frames = make_frames(experiment)
        captions[count] = [figure.caption for figure in learning_curves.BUILDER(frames, experiment)]
        assert "over the validation instances" in collapse.BUILDER(frames, experiment)[0].caption
    assert "over the validation instances" in captions[1][0] and "Band" not in captions[1][1]
    assert "Band" not in captions[2][0] and "interval over seeds" in captions[3][0]
