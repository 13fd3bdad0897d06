"""What a signal foretells of the filter's gain: a planted order of settings is found, holes decide nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plat.errors import SpecError
from plat_analysis.data.results import Results
from plat_analysis.figures.style import images
from plat_ragen2.figures.foretelling import build_precheck
from plat_ragen2.signals import foretells_gain

SIGNAL = "rollout/rv_std_over_mean"
START = {"metric": SIGNAL, "at": 1}
PAPER = {"tables": {"table8": {"rows": {"s0": {"signal": 1.29, "gain": 4.6}}}}}


def planted(make_experiment, make_frames, slope, settings=8, seeds=5, holes=()):
    """Settings whose signal is .2, .4, ... and whose gain is `slope` times that, with noise between seeds."""
    random = np.random.default_rng(9)
    experiment = make_experiment(rows=[f"s{i}" for i in range(settings)], tasks=["sokoban"], seeds=range(seeds))
    experiment = replace(experiment, source="Table 8", paper_data=PAPER)
    frames = make_frames(experiment, holes={experiment.runs[index].id: "failed:oom" for index in holes})
    rows = []
    for run in experiment.runs:
        signal = 0.2 * (1 + int(run.axes["variant"][1:])) + 0.02 * random.standard_normal()
        gain = (run.axes["filter"] == "top_p") * slope * (signal - 0.9) + 0.01 * random.standard_normal()
        rows += [(run.id, SIGNAL, 1, signal), (run.id, "heldout/final_success", 30, 0.4 + gain)]
    own = frames.metrics[~frames.metrics.key.isin([SIGNAL, "heldout/final_success"])]
    frames.metrics = pd.concat([own, pd.DataFrame(rows, columns=["run_id", "key", "step", "value"])])
    frames.tables = frames.tables.iloc[:0]
    return frames, experiment


def judge(planted, **options):
    return foretells_gain(*planted, settings="variant", signals={"Std/Mean": START}, **options)


def test_a_planted_order_is_found_in_either_direction(make_experiment, make_frames):
    rising, falling = (planted(make_experiment, make_frames, slope) for slope in (0.2, -0.2))
    assert judge(rising).status == "shown" and judge(falling).status in ("contradicted", "not_of_this_size")
    assert judge(falling, sign="negative").status == "shown"
    assert judge(planted(make_experiment, make_frames, 0.0)).status == "open"


def test_the_figure_says_what_a_slow_computation_says(make_experiment, make_frames):
    frames, experiment = planted(make_experiment, make_frames, 0.2)
    (figure,) = build_precheck(frames, experiment, settings="variant", signal=START, rivals={"base": START})
    value = {(m.run_id, m.key): m.value for m in frames.metrics.itertuples()}
    x, y = [], []
    for setting in dict.fromkeys(run.axes["variant"] for run in experiment.runs):
        own = {(r.axes["filter"], r.axes["seed"]): r.id for r in experiment.runs if r.axes["variant"] == setting}
        x.append(np.mean([value[own["none", seed], SIGNAL] for seed in range(5)]))
        pairs = [(own["none", seed], own["top_p", seed]) for seed in range(5)]
        y.append(
            100 * np.mean([value[b, "heldout/final_success"] - value[a, "heldout/final_success"] for a, b in pairs])
        )
    assert [point["signal"] for point in figure.points] == pytest.approx(x)
    assert [point["value"] for point in figure.points] == pytest.approx(y)
    assert f"signal {stats.spearmanr(x, y).statistic:+.2f}" in figure.caption
    rhos = {line["signal"]: line["value"] for line in figure.estimates if line["quantity"] == "rho"}
    assert rhos["signal"] == pytest.approx(stats.spearmanr(x, y).statistic)
    right = sum((a >= 1) == (b > 0) for a, b in zip(x, y, strict=True))
    assert f"in {right} of 8 settings" in figure.caption and figure.points[0]["paper_gain"] == 4.6
    assert images(figure)["png"].startswith(b"\x89PNG")


def test_settings_with_one_start_count_once(make_experiment, make_frames):
    frames, experiment = planted(make_experiment, make_frames, 0.2)
    first, second = ([run for run in experiment.runs if run.axes["variant"] == name] for name in ("s0", "s1"))
    for run, other in zip(first, second, strict=True):
        own, others = ((frames.metrics.run_id == one.id) & (frames.metrics.key == SIGNAL) for one in (run, other))
        frames.metrics.loc[others, "value"] = frames.metrics.loc[own, "value"].to_numpy()
    assert "over 7 starts" in judge((frames, experiment)).detail


def test_a_missing_run_is_not_enough_data(make_experiment, make_frames):
    holed = planted(make_experiment, make_frames, 0.2, holes=[0])
    assert judge(holed).status == "not_enough_data"
    (figure,) = build_precheck(*holed, settings="variant", signal=START)
    assert "7 of 8 settings have all" in figure.caption


def test_too_few_settings_are_refused_beforehand(make_experiment):
    experiment = make_experiment(rows=[f"s{i}" for i in range(5)], tasks=["sokoban"])
    for check, more in ((foretells_gain, {"signals": {"x": START}}), (build_precheck, {"signal": START})):
        with pytest.raises(SpecError, match="5 settings are too few"):
            check.beforehand(Results.planned(experiment), settings="variant", **more)
    with pytest.raises(SpecError, match="none is named"):
        foretells_gain.beforehand(Results.planned(experiment), settings="variant", signals={})


def test_starts_are_compared_within_their_task(make_experiment, make_frames):
    """Tasks differ in signal and gain; within a task, gain has nothing to do with signal, or goes with it."""
    tasks, random = ["sokoban", "frozenlake", "countdown"], np.random.default_rng(2)
    experiment = make_experiment(rows=[f"s{i}" for i in range(6)], tasks=tasks, seeds=range(5))
    own = {(f"s{i}", task): random.standard_normal(2) for i in range(6) for task in tasks}

    def judged(planted, **options):
        frames, rows = make_frames(experiment), []
        for run in experiment.runs:
            signal, gain = own[run.axes["variant"], run.axes["task"]] + 9 * tasks.index(run.axes["task"])
            gain = gain + planted * (signal - 9 * tasks.index(run.axes["task"]))
            final = 0.5 + 0.01 * (run.axes["filter"] == "top_p") * gain + 1e-4 * random.standard_normal()
            rows += [(run.id, SIGNAL, 1, signal), (run.id, "heldout/final_success", 30, final)]
        kept = frames.metrics[~frames.metrics.key.isin([SIGNAL, "heldout/final_success"])]
        frames.metrics = pd.concat([kept, pd.DataFrame(rows, columns=["run_id", "key", "step", "value"])])
        frames.tables = frames.tables.iloc[:0]
        settings = ["variant", "task"]
        return foretells_gain(frames, experiment, settings=settings, signals={"Std/Mean": START}, **options)

    by_task = judged(0)
    assert by_task.status == "open" and "18 starts in 3 families (6, 6, 6), p" in by_task.detail
    assert judged(0, within=[]).status == "shown" and "families" not in judged(0, within=[]).detail
    assert judged(3).status == "shown"
    with pytest.raises(SpecError, match="no run can decide this: 18 settings in 18 families"):
        planned = Results.planned(experiment)
        signals = {"x": START}
        foretells_gain.beforehand(planned, settings=["variant", "task"], signals=signals, within=["variant", "task"])
