"""Two readings side by side: what was planted is said, and what has no two sides is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from plat.errors import SpecError
from plat_analysis.plugins.entry_checking import check_entries
from plat_ragen2.readings import build

READINGS = {"same": ["a", "b"], "other": ["a", "c"]}


def planted(make_experiment, make_frames, seeds=6, holes=()):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], filters=["a", "b", "c"], seeds=range(seeds))
    frames = make_frames(experiment, holes={experiment.runs[index].id: "failed:oom" for index in holes})
    for run in experiment.runs:
        own = (frames.metrics.run_id == run.id) & (frames.metrics.key == "heldout/final_success")
        shift = {"a": 0.0, "b": 0.01, "c": 0.2}[run.axes["filter"]]
        wobble = 0.01 * ((3 * run.axes["seed"] + len(run.axes["filter"]) + ord(run.axes["filter"])) % 4)
        frames.metrics.loc[own, "value"] = 0.4 + shift + wobble
    return frames, experiment


def test_what_was_planted_is_said(make_experiment, make_frames):
    frames, experiment = planted(make_experiment, make_frames)
    (table,) = build(frames, experiment, conditions="filter", readings=READINGS)
    found = {record["row"]: record for record in table.records}
    assert found["same"]["found"] == "does not matter" and found["other"]["found"] == "matters"
    values = {
        side: np.array(
            [
                100
                * frames.metrics[
                    (frames.metrics.run_id == run.id) & (frames.metrics.key == "heldout/final_success")
                ].value.iloc[0]
                for run in experiment.runs
                if run.axes["filter"] == side
            ]
        )
        for side in "ac"
    }
    changes = values["c"] - values["a"]
    assert found["other"]["value"] == pytest.approx(changes.mean())
    assert (found["other"]["low"], found["other"]["high"]) == pytest.approx(
        stats.t.interval(0.95, 5, changes.mean(), stats.sem(changes))
    )


def test_a_row_that_varies_much_leaves_the_others_alone(make_experiment, make_frames):
    frames, experiment = planted(make_experiment, make_frames)
    for run in experiment.runs:
        if run.axes["filter"] == "c":
            own = (frames.metrics.run_id == run.id) & (frames.metrics.key == "heldout/final_success")
            frames.metrics.loc[own, "value"] = 0.05 + 0.18 * ((5 * run.axes["seed"]) % 6)
    (table,) = build(frames, experiment, conditions="filter", readings=READINGS)
    assert [record["found"] for record in table.records] == ["does not matter", "open"]


def test_a_missing_run_leaves_its_row_open(make_experiment, make_frames):
    frames, experiment = planted(make_experiment, make_frames, holes=[-1])  # a run of `c`
    (table,) = build(frames, experiment, conditions="filter", readings=READINGS)
    assert [record["found"] for record in table.records] == ["does not matter", "not enough data"]


@pytest.mark.parametrize(
    "readings, what",
    [({"x": ["a", "d"]}, "there is no 'd'"), ({"x": ["a", "a"]}, "needs two readings"), ({"x": "ab"}, "'x'")],
)
def test_what_has_no_two_sides_is_refused_beforehand(make_experiment, readings, what):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], filters=["a", "b", "c"])
    entry = {"builder": "readings", "conditions": "filter", "readings": readings}
    with pytest.raises(SpecError, match=what):
        check_entries(replace(experiment, report=[entry]))
