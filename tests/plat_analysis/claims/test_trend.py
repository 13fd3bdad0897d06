"""A trend along an order of conditions: what was planted is found, its opposite too, and holes decide nothing."""

from __future__ import annotations

import pytest

from plat.errors import SpecError
from plat_analysis.claims.decided import RowTests, decide
from plat_analysis.claims.trend import trend

ORDER = ["high", "middle", "low"]


@pytest.fixture
def planted(make_experiment, make_frames):
    """(experiment, frames) whose success falls along ORDER in the rows with that sign, by seed."""

    def make(signs, seeds=5, holes=()):
        experiment = make_experiment(rows=list(signs), tasks=["sokoban"], filters=ORDER, seeds=range(seeds))
        frames = make_frames(experiment, holes={experiment.runs[index].id: "failed:oom" for index in holes})
        for run in experiment.runs:
            rows = (frames.metrics.run_id == run.id) & (frames.metrics.key == "heldout/final_success")
            step, sign = ORDER.index(run.axes["filter"]), signs[run.axes["variant"]]
            frames.metrics.loc[rows, "value"] = 0.5 - 0.1 * sign * step + 0.01 * ((7 * run.axes["seed"] + step) % 5)
        return experiment, frames

    return make


def judge(planted, **options):
    experiment, frames = planted
    return trend(frames, experiment, conditions="filter", order=ORDER, rows="variant", **options)


def test_what_was_planted_is_found(planted):
    assert judge(planted({"PPO": 1, "GRPO": 1})).status == "shown"
    assert judge(planted({"PPO": 1, "GRPO": -1})).status in ("contradicted", "not_of_this_size")
    assert judge(planted({"PPO": -1, "GRPO": -1}), direction="rising").status == "shown"
    assert judge(planted({"PPO": 1, "GRPO": 0})).status == "shown_in_part"
    assert judge(planted({"PPO": 0, "GRPO": 0})).status == "open"


def test_a_missing_run_or_too_few_seeds_are_not_enough_data(planted):
    assert judge(planted({"PPO": 1}, seeds=4)).status == "not_enough_data"
    verdict = judge(planted({"PPO": 1}, holes=[3]))
    assert verdict.status == "not_enough_data" and "4/5 blocks have every condition" in verdict.detail


def test_the_trend_of_a_change(make_experiment, make_frames):
    """The gain of the filter falls from task to task, though both levels rise."""
    tasks = ["countdown", "sokoban", "frozenlake"]
    experiment = make_experiment(rows=["PPO"], tasks=tasks, seeds=range(5))
    frames = make_frames(experiment)
    for run in experiment.runs:
        rows = (frames.metrics.run_id == run.id) & (frames.metrics.key == "heldout/final_success")
        step, treated = tasks.index(run.axes["task"]), run.axes["filter"] == "top_p"
        frames.metrics.loc[rows, "value"] = (
            0.1 + 0.2 * step + treated * (0.3 - 0.1 * step + 0.01 * ((7 * run.axes["seed"] + step) % 5))
        )
    options = {"conditions": "task", "order": tasks}
    assert trend(frames, experiment, **options, pair="filter").status == "shown"
    level = make_experiment(rows=["PPO"], tasks=tasks, filters=["none"], seeds=range(5))
    assert trend(frames, level, **options, direction="rising").status == "shown"
    with pytest.raises(SpecError, match="no run has task · filter = countdown · top_k"):
        trend(frames, experiment, **options, pair="filter", treatment="top_k")


def test_an_order_that_cannot_be_judged_is_refused(planted):
    experiment, frames = planted({"PPO": 1})
    for order, what in (
        (["high", "low"], "needs 3 different conditions"),
        (["high", "low", "lower"], "no value 'lower'"),
    ):
        with pytest.raises(SpecError, match=what):
            trend(frames, experiment, conditions="filter", order=order)


@pytest.mark.parametrize(
    "ps, status",
    [
        ([(0.02, 0.9), (0.02, 0.9)], "shown"),  # each by its own test
        ([(0.02, 0.9), (0.2, 0.9)], "open"),  # Holm over two rows
        ([(0.001, 0.9), (0.2, 0.9)], "shown_in_part"),
        ([(0.001, 0.9), (0.9, 0.001)], "contradicted"),
        ([(0.001, 0.9), (None, None)], "not_enough_data"),
        ([], "not_enough_data"),
    ],
)
def test_rows_share_the_error(ps, status):
    rows = {str(index): RowTests(p, opposite, "") for index, (p, opposite) in enumerate(ps)}
    assert decide(rows).status == status


def test_looks_divide_the_error():
    rows = {"a": RowTests(0.02, 0.9, "")}
    assert decide(rows).status == "shown" and decide(rows, looks=2).status == "open"
