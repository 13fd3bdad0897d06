"""Reward matrices against loops over every trajectory, and what cannot be drawn is refused beforehand."""

from __future__ import annotations

import statistics
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from plat.errors import SpecError
from plat_analysis.figures.style import images
from plat_analysis.plugins.entry_checking import check_entries
from plat_ragen2.figures.reward_matrices import build

STEPS = (1, 2, 7)


@pytest.fixture
def experiment(make_experiment):
    return make_experiment(rows=["PPO", "GRPO"], tasks=["sokoban"], filters=["none"], seeds=[3, 1, 2])


def with_matrices(make_frames, experiment, **holes):
    """(frames, run id -> step -> rows of returns): failures near 0, successes near 10."""
    rng, known = np.random.default_rng(0), {}
    for run in experiment.runs:
        for step in STEPS:
            easiness = rng.random((5, 1))
            matrix = 10.0 * (rng.random((5, 4)) < easiness) - rng.random((5, 4))
            known.setdefault(run.id, {})[step] = matrix.round(6).tolist()
    rows = [(run, "reward_matrix", step, rows) for run, own in known.items() for step, rows in own.items()]
    frames = make_frames(experiment, **holes)
    return replace(frames, tables=pd.DataFrame(rows, columns=["run_id", "name", "step", "data"])), known


def numbers(figure, part, row):
    return {(p["iteration"], p["what"]): p["value"] for p in figure.points if (p["part"], p["row"]) == (part, row)}


def test_spreads_counts_and_matrices(experiment, make_frames):
    frames, known = with_matrices(make_frames, experiment)
    (figure,) = build(frames, experiment, moments=[1, 6], solved=5, rows="variant")
    for row in ("PPO", "GRPO"):
        runs = [run for run in experiment.runs if run.axes["variant"] == row]
        for moment, step in ((1, 1), (6, 2)):
            spreads = sorted(statistics.stdev(prompt) for run in runs for prompt in known[run.id][step])
            found = numbers(figure, "spread", row)
            assert found[moment, "median"] == pytest.approx(statistics.median(spreads))
            assert spreads[0] <= found[moment, "5 %"] <= found[moment, "25 %"] <= spreads[len(spreads) // 2]
            lowest = next(run for run in runs if run.axes["seed"] == 1)
            drawn = [v for (at, _), v in numbers(figure, "matrix", row).items() if at == moment]
            assert sorted(drawn) == sorted(value for prompt in known[lowest.id][step] for value in prompt)
            means = [statistics.mean(drawn[4 * p : 4 * p + 4]) for p in range(5)]
            assert means == sorted(means, reverse=True)
        for step in STEPS:
            solved = [sum(value >= 5 for value in prompt) / 4 for run in runs for prompt in known[run.id][step]]
            easy, hard = sum(s >= 0.8 for s in solved) / 3, sum(s <= 0.2 for s in solved) / 3
            found = numbers(figure, "prompts", row)
            assert (found[step, "easy"], found[step, "hard"]) == (pytest.approx(easy), pytest.approx(hard))
            assert found[step, "mixed"] == pytest.approx(5 - easy - hard)
    svg, png = map(images(figure).get, ("svg", "png"))
    assert png.startswith(b"\x89PNG") and all(f'id="{gid}"' in svg.decode() for gid in figure.titles)


def test_a_failed_run_is_left_out_and_said(experiment, make_frames):
    lost = next(run.id for run in experiment.runs if run.axes["seed"] == 1)
    frames, _ = with_matrices(make_frames, experiment, holes={lost: "failed:oom"})
    (figure,) = build(frames, experiment, moments=[1], solved=5, rows="variant")
    assert "PPO: 2 of 3 runs." in figure.caption and "GRPO" not in figure.caption
    assert not any(lost in p["run_ids"] for p in figure.points)


def test_without_any_matrix_the_figure_says_so(experiment, make_frames):
    (figure,) = build(make_frames(experiment), experiment, moments=[1], solved=5, rows="variant")
    assert not figure.points and "no data" in images(figure)["svg"].decode()


@pytest.mark.parametrize(
    "options, what",
    [
        ({"moments": [0], "solved": 5}, "not a list of training iterations"),
        ({"moments": [], "solved": 5}, "not a list of training iterations"),
        ({"moments": [1], "solved": 5, "easy": 0.1}, "must be below easy"),
        ({"moments": [1]}, "solved"),
    ],
)
def test_what_cannot_be_drawn_is_refused_beforehand(experiment, options, what):
    entry = {"builder": "reward_matrices", "rows": "variant", **options}
    with pytest.raises(SpecError, match=what):
        check_entries(replace(experiment, report=[entry]))
