"""What stands beside a retrieval accuracy: its chance and its valid reasonings, and nothing where nothing is logged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from plat_analysis.data.chance import beside, chance_of, valid_of
from plat_analysis.data.results import Results
from plat_analysis.figures.learning_curves import build, build_panels
from plat_analysis.tables.measures_table import build as build_table

ACC, CHANCE, VALID = (f"mi/first_turn/{name}" for name in ("retrieval_acc", "retrieval_chance", "valid_reasonings"))


@pytest.mark.parametrize(
    ("metric", "chance", "valid"),
    [
        (ACC, CHANCE, VALID),
        ("mi/turn_2/retrieval_acc", "mi/turn_2/retrieval_chance", "mi/turn_2/valid_reasonings"),
        ("probe/retrieval_acc", "probe/retrieval_chance", "probe/valid_reasonings"),
        ("probe/retrieval_acc/template", "probe/retrieval_chance", "probe/valid_reasonings"),
        (
            "collapse_trajectory_sample/retrieval_accuracy",
            "collapse_trajectory_sample/retrieval_chance_level",
            "collapse/valid_thinking_rate",
        ),
        ("mi/first_turn/retrieval_acceptance", None, None),
        ("mi/first_turn/retrieval_above_chance", None, None),
        ("success", None, None),
    ],
)
def test_names(metric, chance, valid):
    assert (chance_of(metric), valid_of(metric)) == (chance, valid)


def with_counts(make_experiment, make_frames, chance=0.125):
    """Runs whose valid reasonings fall from 64 to 64 minus the step, and whose chance rises from `chance`."""
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(3))
    frames = make_frames(experiment)
    own = frames.metrics
    accuracy = own[own.key == ACC]
    rising = accuracy.assign(key=CHANCE, value=chance + 0.001 * (accuracy.step - 1))
    counts = accuracy.assign(key=VALID, value=64.0 - accuracy.step)
    frames.metrics = pd.concat([own[own.key != CHANCE], rising, counts])
    return frames, experiment


def test_a_sentence_has_the_extent_of_both(make_experiment, make_frames):
    frames, experiment = with_counts(make_experiment, make_frames)
    results = Results.of(frames, experiment)
    steps = frames.metrics[frames.metrics.key == ACC].step
    expected = (
        f"Retrieval accuracy: chance 0.125 to {0.125 + 0.001 * (steps.max() - 1):.3f}, "
        f"measured on {64 - steps.max()} to 63 valid reasonings."
    )
    assert beside(results, results.runs, [ACC, "success", ACC]) == [expected]


def test_older_runs_show_what_they_have(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    frames = make_frames(experiment)
    results = Results.of(frames, experiment)
    assert beside(results, results.runs, [ACC]) == ["Retrieval accuracy: chance 0.125."]
    assert beside(results, results.runs, ["probe/retrieval_acc"]) == []
    nothing = frames.metrics.value.where(frames.metrics.key != CHANCE, np.nan)
    results = Results.of(replace(frames, metrics=frames.metrics.assign(value=nothing)), experiment)
    assert beside(results, results.runs, [ACC]) == []


def test_others_log_a_share(make_experiment, make_frames):
    frames, experiment = with_counts(make_experiment, make_frames)
    names = {ACC: "c/retrieval_accuracy", CHANCE: "c/retrieval_chance_level", VALID: "collapse/valid_thinking_rate"}
    frames.metrics["key"] = frames.metrics["key"].replace(names)
    shares = frames.metrics.key == "collapse/valid_thinking_rate"
    frames.metrics.loc[shares, "value"] /= 100
    results = Results.of(frames, experiment)
    (sentence,) = beside(results, results.runs, ["c/retrieval_accuracy"])
    assert sentence.endswith("to 0.63.") and ", share of valid reasonings 0." in sentence


def dotted(figure, panel):
    """The values of the dotted lines of a panel, longer than a guide."""
    lines = figure.draw().axes[panel].lines
    return [line.get_ydata() for line in lines if line.get_linestyle() == ":" and len(line.get_ydata()) > 2]


def test_figures_draw_the_chance_and_say_the_count(make_experiment, make_frames):
    frames, experiment = with_counts(make_experiment, make_frames)
    first = experiment.runs[0].id
    own = frames.metrics[(frames.metrics.run_id == first) & (frames.metrics.key == CHANCE)].sort_values("step")
    (curves,) = build(frames, experiment, metrics=[ACC])
    (panels,) = build_panels(frames, experiment, conditions="filter", metrics={"Success": "success", "R": ACC})
    for figure, panel in ((curves, 0), (panels, 1)):
        assert "Dotted: chance. " in figure.caption and "to 63 valid reasonings." in figure.caption
        assert any(np.array_equal(values, own["value"]) for values in dotted(figure, panel))
    assert not dotted(panels, 0)
    (success,) = build(frames, experiment, metrics=["success"])
    assert "chance" not in success.caption.replace("beyond chance", "")


def test_a_table_says_both_for_each_line_at_the_same_steps(make_experiment, make_frames):
    frames, experiment = with_counts(make_experiment, make_frames)
    measures = {
        "end": {"metric": ACC, "percent": True},
        "last 3": {"metric": ACC, "mean_of_last": 3},
        "slope": {"metric": ACC, "slope": True},
    }
    (table,) = build_table(frames, experiment, conditions="filter", measures=measures)
    texts = [note.text for note in table.notes]
    last = frames.metrics[frames.metrics.key == CHANCE].groupby("run_id")["value"].last().mean()
    last_three = (
        frames.metrics[frames.metrics.key == VALID].groupby("run_id")["value"].apply(lambda v: v.tail(3).mean())
    )
    assert f"end, chance: {100 * last:.1f} %." in texts
    assert f"last 3, valid reasonings: {last_three.mean():.1f}." in texts
    assert not any(text.startswith("slope,") for text in texts)
    runs = [run.id for run in experiment.runs if run.axes["filter"] == "none"]
    few = (frames.metrics.key == VALID) & frames.metrics.run_id.isin(runs)
    fewer = replace(frames, metrics=frames.metrics.assign(value=frames.metrics.value.where(~few, 5.0)))
    (table,) = build_table(fewer, experiment, conditions="filter", measures={"last": {"metric": ACC}})
    (text,) = (note.text for note in table.notes if "valid" in note.text)
    assert text.startswith("last, valid reasonings: no filter 5.0, Top-p ")
