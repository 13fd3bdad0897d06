"""Every check that judges at looks, on frames that hold the runs of some seeds only, as a sweep has them."""

from __future__ import annotations

import numpy as np
import pytest

from plat.errors import SpecError
from plat.spec.expansion.decide import Decide
from plat_analysis.claims.checks import delta_larger, increasing, level, mean_delta_positive, mean_delta_small
from plat_analysis.claims.planned import asked_for
from plat_analysis.claims.trend import trend, trend_over_measures
from plat_analysis.data.results import Results
from plat_analysis.statistics.sequential import Plan, Row, decide

ROWS = ("PPO", "GRPO")
LOOKS = (8, 12, 18, 26)


def store(make_experiment, make_frames, gain, *, seeds=26, until=26, spread=0.02, builds=None, plan=None, holes=None):
    """An experiment with `decide`, and frames with the first `until` seeds; the treatment gains `gain[row]`."""
    plan = plan or Decide(LOOKS)
    fields = {"rows": ROWS, "tasks": ["sokoban"], "seeds": range(seeds), "builds": builds, "decide": plan}
    experiment = make_experiment(**fields)
    absent = {run.id: "absent" for run in experiment.runs if run.axes["seed"] >= until} | (holes or {})
    frames = make_frames(experiment, steps=20, holes=absent)
    frames.tables = frames.tables.iloc[:0]
    frames.metrics = frames.metrics[frames.metrics["key"] == "val/success"].reset_index(drop=True)
    for run in experiment.runs:
        axes = run.axes
        noise = np.random.default_rng([axes["seed"], axes.get("model.base.seed", 0), axes["filter"] == "top_p"])
        value = 0.4 + spread * noise.standard_normal() + gain[axes["variant"]] * (axes["filter"] == "top_p")
        frames.metrics.loc[frames.metrics["run_id"] == run.id, "value"] = value
    return frames, experiment


def judged(made, **options):
    return mean_delta_positive(*made, rows="variant", measure="final", smallest=5.0, builds="fixed", **options)


def test_a_verdict_asks_for_the_runs_of_its_next_look(make_experiment, make_frames):
    gain = {"PPO": 0.3, "GRPO": 0.03}
    before = judged(store(make_experiment, make_frames, gain, until=0)).planned
    assert (before.look, before.rows, before.open, len(before.needs)) == (8, 2, 2, 32)
    third = judged(store(make_experiment, make_frames, gain, until=8)).planned
    assert (third.look, third.open, len(third.needs)) == (12, 2, 16)  # two open rows: none is shown by eight pairs
    at_12 = store(make_experiment, make_frames, gain, until=12, spread=0.06)
    verdict = judged(at_12)
    assert (verdict.planned.look, verdict.planned.open) == (18, 1)
    needed = {run.axes["variant"] for run in at_12[1].runs if run.id in verdict.planned.needs}
    assert needed == {"GRPO"} and len(verdict.planned.needs) == 12
    assert verdict.status == "open" and "open after 2 looks; 12 runs to the next, at 18 pairs" in verdict.deciding


def test_the_decisions_are_those_of_the_statistics(make_experiment, make_frames):
    gain = {"PPO": 0.3, "GRPO": 0.02}
    frames, experiment = store(make_experiment, make_frames, gain, spread=0.05)
    verdict = judged((frames, experiment))
    last = dict(zip(frames.metrics["run_id"], frames.metrics["value"], strict=True))
    of = {(r.axes["variant"], r.axes["filter"], r.axes["seed"]): 100 * last[r.id] for r in experiment.runs}
    rows = {row: Row([of[row, "top_p", s] - of[row, "none", s] for s in range(26)], 5.0) for row in ROWS}
    found = decide(rows, Plan(LOOKS))
    assert verdict.value == pytest.approx({row: one.mean for row, one in found.items()})
    assert verdict.bounds["PPO"] == pytest.approx((found["PPO"].low, found["PPO"].high))
    assert verdict.status == "shown_in_part" and found["PPO"].word == "shown" and found["PPO"].pairs == 12
    assert any(f"at {found['GRPO'].pairs} pairs" in line for line in verdict.lines)


def test_whole_seeds_of_every_build_are_one_block_each(make_experiment, make_frames):
    made = store(make_experiment, make_frames, {"PPO": 0.3, "GRPO": 0.3}, seeds=13, until=6, builds=[0, 1])
    verdict = judged(made)
    assert verdict.status == "shown" and {len(verdict.planned.asked)} == {2 * 2 * 12}
    assert all("at 12 pairs" in line for line in verdict.lines if line.startswith(ROWS))


def test_a_run_that_ended_without_a_value_decides_nothing(make_experiment, make_frames):
    gain = {"PPO": 0.3, "GRPO": 0.3}
    _, experiment = store(make_experiment, make_frames, gain)
    third = next(run for run in experiment.runs if run.axes["seed"] == 3 and run.axes["variant"] == "PPO")
    frames, _ = store(make_experiment, make_frames, gain, until=12, holes={third.id: "failed:oom"})
    verdict = judged((frames, experiment))
    assert verdict.status == "not_enough_data" and verdict.planned.needs == (third.id,) and verdict.planned.failed == 1
    frames, _ = store(make_experiment, make_frames, gain, until=12)
    frames.metrics = frames.metrics[frames.metrics["run_id"] != third.id]
    verdict = judged((frames, experiment))
    assert (
        verdict.status == "not_enough_data"
        and not verdict.planned.needs
        and verdict.deciding.startswith("PPO has no value at build 0 seed 3")
        and any(line.startswith("GRPO +") and "at 12 pairs" in line for line in verdict.lines)  # it is judged alone
    )


@pytest.mark.parametrize(("gain", "word"), [(0.3, "shown"), (-0.3, "contradicted"), (0.0, "not of this size")])
def test_one_row_has_each_word(make_experiment, make_frames, gain, word):
    made = store(make_experiment, make_frames, {"PPO": gain, "GRPO": 0.0}, spread=0.01)
    verdict = judged(made, only=["PPO"])
    assert verdict.status == word.replace(" ", "_") and verdict.deciding.startswith("Top-p minus no filter: PPO")


def test_other_checks_judge_at_looks_too(make_experiment, make_frames):
    made = store(make_experiment, make_frames, {"PPO": 0.3, "GRPO": 0.0})
    small = mean_delta_small(*made, rows="variant", measure="final", smallest=5.0, builds="fixed")
    assert small.status == "contradicted" and small.deciding.startswith("Top-p minus no filter: PPO")
    assert not small.planned.needs and small.deciding.endswith("shown: GRPO")
    larger = delta_larger(*made, rows="variant", row="PPO", than="GRPO", measure="final", builds="fixed")
    assert larger.status == "shown" and "at 8 pairs" in larger.deciding
    above = level(*made, rows=["variant", "filter"], measure="final", bound=60, only=["PPO · top_p"])
    assert above.status == "shown" and "at 8 pairs" in above.deciding and "+" not in above.deciding
    below = level(*made, rows=["variant", "filter"], measure="final", bound=60, side="below", only=["GRPO · top_p"])
    assert below.status == "shown"
    rising = increasing(*made, rows="filter", metric="val/success", columns="variant", builds="fixed")
    assert rising.planned.rows == 2 and rising.status == "shown_in_part"


def test_a_trend_is_judged_by_its_slopes(make_experiment, make_frames):
    experiment = make_experiment(
        rows=ROWS, tasks=["sokoban"], filters=["low", "middle", "high"], seeds=range(26), decide=Decide(LOOKS)
    )
    frames = make_frames(experiment, steps=20)
    frames.metrics = frames.metrics[frames.metrics["key"] == "val/success"].reset_index(drop=True)
    level_of = {"low": 0.1, "middle": 0.2, "high": 0.3}
    for run in experiment.runs:
        noise = 0.01 * np.random.default_rng([run.axes["seed"], len(run.axes["filter"])]).standard_normal()
        rows = (frames.metrics["run_id"] == run.id) & (frames.metrics["key"] == "val/success")
        frames.metrics.loc[rows, "value"] = level_of[run.axes["filter"]] + noise
    frames.tables = frames.tables.iloc[:0]
    options = {"conditions": "filter", "order": ["low", "middle", "high"], "rows": "variant", "measure": "final"}
    rising = trend(frames, experiment, direction="rising", **options)
    falling = trend(frames, experiment, direction="falling", **options)
    assert rising.status == "shown" and rising.value["PPO"] == pytest.approx(10.0, abs=0.5)
    assert falling.status != "shown"
    measures = {str(at): {"metric": "val/success", "at": at} for at in (0, 10, 20)}
    assert trend_over_measures(frames, experiment, measures=measures, rows=["variant", "filter"]).planned.rows == 6


def test_unequal_blocks_and_margins_in_another_unit(make_experiment, make_frames):
    gain = {"PPO": 0.3, "GRPO": 0.3}
    frames, experiment = store(make_experiment, make_frames, gain, seeds=20)
    with pytest.raises(SpecError, match="20 blocks of build and seed for it, not 26"):
        judged((frames, experiment))
    with pytest.raises(SpecError, match="is in points, from 0 to 100"):
        judged(store(make_experiment, make_frames, gain, plan=Decide(LOOKS, margin=0.05)))


def test_the_report_shows_the_runs_that_were_asked_for(make_experiment, make_frames):
    frames, experiment = store(make_experiment, make_frames, {"PPO": 0.3, "GRPO": 0.0}, until=12)
    verdict = judged((frames, experiment))
    shown = asked_for(experiment, [verdict])
    assert {run.id for run in shown.runs} == set(verdict.planned.asked) < {run.id for run in experiment.runs}
    assert len(Results.of(frames, shown).positions) == len(verdict.planned.asked)
