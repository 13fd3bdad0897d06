"""Learning curves: a figure per metric, and captions that say what a band is."""

from __future__ import annotations

from plat_analysis.data.labels import value_label
from plat_analysis.figures import learning_curves, style
from plat_ragen2.regimes import collapse


def quickstart(make_experiment, **fields):
    return make_experiment(rows=["GRPO"], tasks=["frozenlake"], **fields)


def test_learning_curves_are_one_figure_per_metric(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO", "GRPO"], tasks=["sokoban", "countdown"])
    figures = learning_curves.build(make_frames(experiment), experiment)
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
        captions[count] = [figure.caption for figure in learning_curves.build(frames, experiment)]
        assert "over the validation instances" in collapse.build(frames, experiment)[0].caption
    assert "over the validation instances" in captions[1][0] and "Band" not in captions[1][1]
    assert "Band" not in captions[2][0] and "interval over seeds" in captions[3][0]


def test_numbers_that_head_panels_have_the_name_of_their_axis(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], builds=[0, 1])
    frames = make_frames(experiment)
    options = {"rows": ["variant", "model.base.seed"], "columns": "model.base.seed"}
    canvas = learning_curves.build(frames, experiment, **options)[0].draw()
    assert [axis.get_title() for axis in canvas.axes[:2]] == ["build 0", "build 1"]
    assert {text.get_text() for axis in canvas.axes for text in axis.texts} >= {"PPO · build 0", "PPO · build 1"}
    assert value_label("algorithm.kl_coef", "0.001") == "KL coefficient 0.001"
    assert value_label("filter.value", "0.9") == "filter value 0.9"
    assert value_label("task", "sokoban") == "Sokoban"


def test_a_key_names_its_axis_in_ink_and_bands_are_promised_where_drawn(make_experiment, make_frames):
    for variants in (["PPO", "DAPO"], ["PPO", "DAPO", "GRPO", "Dr. GRPO"]):
        experiment = make_experiment(rows=variants, tasks=["sokoban"], filters=["none"], seeds=range(3))
        frames = make_frames(experiment)
        figure = learning_curves.build(frames, experiment, rows="task", pair="variant", baseline="PPO")[0]
        canvas = figure.draw()
        assert ("Band" in figure.caption) == any(axis.collections for axis in canvas.axes) == (len(variants) == 2)
        heading, *names = canvas.texts
        assert (heading.get_text(), heading.get_color()) == ("variant:", style.INK)
        assert [name.get_text() for name in names[: len(variants)]] == variants
