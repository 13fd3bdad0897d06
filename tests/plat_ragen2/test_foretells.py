"""What a metric foretells over settings: a planted lead is found, an echo of success is not, holes decide nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from plat.errors import SpecError
from plat_analysis.figures.style import images
from plat_ragen2.figures.foretelling import build
from plat_ragen2.signals import foretells

SETTINGS = [f"s{index}" for index in range(8)]
LEAD, ECHO = "probe/retrieval_acc", "probe/fluent"


def planted(make_experiment, make_frames, holes=()):
    """Settings of differing strength: LEAD shows it at iteration 8, success only at the end; ECHO repeats success."""
    random = np.random.default_rng(5)
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], filters=SETTINGS, seeds=range(5))
    frames = make_frames(experiment, holes={experiment.runs[index].id: "failed:oom" for index in holes})
    strength, rows = random.uniform(0, 0.5, len(SETTINGS)), []
    for run in experiment.runs:
        true, early = strength[SETTINGS.index(run.axes["filter"])], random.uniform(0, 0.2)
        rows += [(run.id, LEAD, 8, true + 0.02 * random.standard_normal()), (run.id, ECHO, 8, early)]
        rows += [(run.id, "val/success", 8, early), (run.id, "val/success", 16, early + true)]
        rows += [(run.id, "heldout/final_success", 16, early + true + 0.02 * random.standard_normal())]
    own = frames.metrics[~frames.metrics.key.isin([LEAD, ECHO, "val/success", "heldout/final_success"])]
    frames.metrics = pd.concat([own, pd.DataFrame(rows, columns=["run_id", "key", "step", "value"])])
    frames.tables = frames.tables.iloc[:0]
    return frames, experiment


def judge(planted, metric, at=8, **options):
    return foretells(*planted, conditions="filter", metrics={"proxy": metric}, at=at, **options)


def test_a_lead_is_found_and_an_echo_is_not(make_experiment, make_frames):
    frames = planted(make_experiment, make_frames)
    lead = judge(frames, LEAD)
    assert lead.status == "shown" and "proxy at 8 raises the explained share from −0.06 to 0.96" in lead.detail
    assert judge(frames, ECHO).status == "open"


def test_what_another_known_metric_says_is_no_lead(make_experiment, make_frames):
    frames = planted(make_experiment, make_frames)
    copy = frames[0].metrics[frames[0].metrics.key == LEAD].assign(key="val/format_valid")
    frames[0].metrics = pd.concat([frames[0].metrics, copy])
    known = ["success", "val/format_valid"]
    assert judge(frames, LEAD, known=known).status == "open"
    assert judge(frames, LEAD, known=["success", ECHO]).status == "shown"
    assert judge(frames, LEAD, known=["success", "val/turns"]).status == "not_enough_data"
    (figure,) = build(*frames, conditions="filter", metrics={"lead": LEAD}, known=known, steps=[8])
    assert "Validation success" not in figure.caption and "success and val/format_valid at that" in figure.caption
    assert images(figure)["svg"]


def test_holes_and_steps_without_measurements_are_not_enough_data(make_experiment, make_frames):
    assert judge(planted(make_experiment, make_frames, holes=[0]), LEAD).status == "not_enough_data"
    assert judge(planted(make_experiment, make_frames), LEAD, at=4).status == "not_enough_data"


def test_the_figure_shows_the_same_shares(make_experiment, make_frames):
    frames, experiment = planted(make_experiment, make_frames)
    metrics = {"lead": LEAD, "echo": ECHO}
    (figure,) = build(frames, experiment, conditions="filter", metrics=metrics, steps=[4, 8])
    points = {(point["metric"], point["step"]): point for point in figure.points}
    assert points["lead", 8]["with_it"] > 0.9 > 0.3 > points["lead", 8]["without"] and points["lead", 8]["star"] == 1
    assert points["echo", 8]["star"] == 0 and "with_it" not in points["lead", 4] and points["lead", 4]["note"]
    svg, png = map(images(figure).get, ("svg", "png"))
    assert png.startswith(b"\x89PNG") and "point-1" in svg.decode()


def test_what_is_no_question_is_refused(make_experiment, make_frames):
    _, experiment = planted(make_experiment, make_frames)
    before = foretells.beforehand
    from plat_analysis.data.results import Results

    results = Results.planned(experiment)
    for metrics, at, what in (({}, 8, "none is named"), ({"a": LEAD}, -1, "not a training iteration")):
        with pytest.raises(SpecError, match=what):
            before(results, conditions="filter", metrics=metrics, at=at)
    for known in ([], ["success", "success"], ["success", LEAD]):
        with pytest.raises(SpecError, match="must be different metrics"):
            before(results, conditions="filter", metrics={"a": LEAD}, known=known, at=8)
    with pytest.raises(SpecError, match="4 metrics need 9 settings, there are 8"):
        before(results, conditions="filter", metrics={"a": LEAD}, known=["success", *"xyz"], at=8)
    few = make_experiment(rows=["PPO"], tasks=["sokoban"], filters=SETTINGS[:5])
    with pytest.raises(SpecError, match="6 settings"):
        before(Results.planned(few), conditions="filter", metrics={"a": LEAD}, at=8)
