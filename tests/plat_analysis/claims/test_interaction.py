"""Whether the treatment helps more in one row than in another, against effects that were put in."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from plat.errors import SpecError
from plat_analysis.claims.checks import delta_larger

ROWS = ("PPO", "GRPO")


def frames_with(make_experiment, make_frames, effects, seeds=5, noise=0.02, tasks=("frozenlake", "countdown")):
    """Frames in which the treatment adds its row's effect (in points); returns the differences put in, seed by seed."""
    experiment = make_experiment(rows=ROWS, tasks=list(tasks), seeds=range(seeds))
    frames = make_frames(experiment, steps=20)
    frames.tables = frames.tables.iloc[:0]
    frames.metrics = frames.metrics[frames.metrics["key"] == "val/success"].reset_index(drop=True)
    rng = np.random.default_rng(3)
    values = {}
    for run in experiment.runs:
        effect = effects[ROWS.index(run.axes["variant"])] if run.axes["filter"] == "top_p" else 0.0
        value = 0.4 + effect / 100 + noise * rng.standard_normal()
        frames.metrics.loc[frames.metrics["run_id"] == run.id, "value"] = value
        values[run.axes["variant"], run.axes["task"], run.axes["filter"], run.axes["seed"]] = 100 * value
    differences = [
        np.mean(
            [
                values["PPO", task, "top_p", seed]
                - values["PPO", task, "none", seed]
                - values["GRPO", task, "top_p", seed]
                + values["GRPO", task, "none", seed]
                for task in tasks
            ]
        )
        for seed in range(seeds)
    ]
    return experiment, frames, differences


@pytest.mark.parametrize(
    "effects, expected",
    [((30, 0), "shown"), ((0, 30), "contradicted"), ((20, 20), "not_of_this_size"), ((30, 28), "open")],
)
def test_the_difference_of_two_changes(make_experiment, make_frames, effects, expected):
    experiment, frames, differences = frames_with(make_experiment, make_frames, effects)
    verdict = delta_larger(frames, experiment, row="PPO", than="GRPO", smallest=8.0 if effects[0] == 20 else 5.0)
    assert verdict.status == expected, verdict.detail
    assert verdict.value == {"PPO over GRPO": pytest.approx(np.mean(differences))}
    assert len(verdict.run_ids) == 40
    low, high = stats.t.interval(0.95, 4, np.mean(differences), stats.sem(differences))
    shown = [float(word.strip("[],").replace("−", "-")) for word in verdict.detail.split("[")[1].split("]")[0].split()]
    assert shown == [pytest.approx(low, abs=0.06), pytest.approx(high, abs=0.06)]


def test_one_seed_is_not_enough(make_experiment, make_frames):
    experiment, frames, _ = frames_with(make_experiment, make_frames, (30, 0), seeds=1)
    assert delta_larger(frames, experiment, row="PPO", than="GRPO").status == "not_enough_data"


def test_a_missing_run_is_never_left_out_in_silence(make_experiment, make_frames):
    experiment, frames, _ = frames_with(make_experiment, make_frames, (30, 0))
    lost = next(run for run in experiment.runs if run.axes["variant"] == "GRPO" and run.axes["seed"] == 2)
    frames.metrics = frames.metrics[frames.metrics["run_id"] != lost.id]
    verdict = delta_larger(frames, experiment, row="PPO", than="GRPO")
    assert verdict.status == "not_enough_data" and "seed 2: not evaluated" in verdict.detail


def test_rows_that_do_not_exist_are_refused(make_experiment, make_frames):
    experiment, frames, _ = frames_with(make_experiment, make_frames, (30, 0))
    with pytest.raises(SpecError, match="no row 'PP0'"):
        delta_larger(frames, experiment, row="PP0", than="GRPO")


def test_columns_for_themselves(make_experiment, make_frames):
    experiment, frames, _ = frames_with(make_experiment, make_frames, (30, 0))
    verdict = delta_larger(frames, experiment, row="PPO", than="GRPO", by_column=True)
    assert verdict.status == "shown"
    assert list(verdict.value) == ["FrozenLake, PPO over GRPO", "Countdown, PPO over GRPO"]
