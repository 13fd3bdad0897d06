"""What the JSON of a verdict has of its rows, for each check: the numbers that its text and its `value` have."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plat.spec.expansion.decide import Decide
from plat_analysis.claims.checks import level, mean_delta_positive, mean_delta_small
from plat_analysis.claims.correlated import correlated
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.record import ErrorControl, scale_in_words
from plat_analysis.claims.trend import trend
from plat_analysis.report.verdicts import Judged, verdict_lines


def agreeing(verdict: Verdict) -> dict[str, dict]:
    """The rows of a verdict, whose numbers are those of its value, its bounds and its runs."""
    found = json.loads(json.dumps(verdict.as_dict(), allow_nan=False))
    rows = {row["row"]: row for row in found["rows"]}
    assert len(rows) == len(found["rows"]) == found["error_control"]["rows"]
    for name, row in rows.items():
        assert row["estimate"] == (verdict.value or {}).get(name)
        assert [row["low"], row["high"]] == list(verdict.bounds.get(name, (None, None)))
        assert set(row["run_ids"]) <= set(found["run_ids"])
    return rows


@pytest.fixture
def made(make_experiment, make_frames):
    """Frames of two rows with values that a test gives: `of(axes)` in [0, 1]."""

    def make(of, seeds=8, **fields):
        experiment = make_experiment(rows=["PPO", "GRPO"], tasks=["sokoban"], seeds=range(seeds), **fields)
        frames = make_frames(experiment, steps=20)
        values = [(run.id, "val/success", 20, of(run.axes)) for run in experiment.runs]
        frames.metrics = pd.DataFrame(values, columns=["run_id", "key", "step", "value"])
        frames.tables = frames.tables.iloc[:0]
        return frames, experiment

    return make


def noisy(gain: float, spread: float = 0.02):
    def of(axes):
        noise = np.random.default_rng([axes["seed"], axes["filter"] == "top_p", axes["variant"] == "PPO"])
        return 0.4 + gain * (axes["filter"] == "top_p") + spread * noise.standard_normal()

    return of


CHANGE = {"rows": "variant", "measure": "final", "builds": "fixed"}


@pytest.mark.parametrize("gain", [0.2, 0.0, -0.2])
def test_changes_in_points(made, gain):
    of = noisy(gain)
    frames, experiment = made(of)
    for verdict in (mean_delta_positive(frames, experiment, **CHANGE), mean_delta_small(frames, experiment, **CHANGE)):
        for name, row in agreeing(verdict).items():
            sides = [
                [100 * of({"seed": seed, "filter": side, "variant": name}) for seed in range(8)]
                for side in ("none", "top_p")
            ]
            x = np.subtract(*reversed(sides))
            assert row["estimate"] == pytest.approx(x.mean())
            assert (row["low"], row["high"]) == pytest.approx(stats.t.interval(0.95, 7, x.mean(), stats.sem(x)))
            assert row["unit"] == "points" and row["level"] == 0.95 and len(row["run_ids"]) == 16
            assert row["finding"] in row["tests"] or row["finding"] == "open"


def test_levels_in_percent(made):
    frames, experiment = made(noisy(0.0), filters=["none"])
    for row in agreeing(level(frames, experiment, measure="final", bound=30, rows="variant")).values():
        assert row["unit"] == "percent" and row["low"] < row["estimate"] < row["high"]


def test_slopes(made):
    order = ["high", "middle", "low"]

    def of(axes):
        return 0.5 - 0.1 * order.index(axes["filter"]) + 0.001 * ((7 * axes["seed"] + order.index(axes["filter"])) % 5)

    frames, experiment = made(of, filters=order)
    verdict = trend(frames, experiment, conditions="filter", order=order, rows="variant", measure="final")
    for row in agreeing(verdict).values():
        at = [[of({"filter": name, "seed": seed}) for name in order] for seed in range(8)]
        x = [100 * np.polyfit(range(3), values, 1)[0] for values in at]
        assert row["estimate"] == pytest.approx(np.mean(x)) and (row["values"], row["wanted"]) == (8, 8)
        assert row["unit"] == "points" and len(row["run_ids"]) == 24


def test_correlations(made):
    settings = [f"s{number}" for number in range(9)]

    def of(axes):
        return 0.05 * settings.index(axes["filter"]) + 0.001 * axes["seed"]

    frames, experiment = made(of, filters=settings, seeds=6)
    other = frames.metrics.assign(key="actor/entropy", value=frames.metrics.value**2)
    frames.metrics = pd.concat([frames.metrics, other])
    options = {"rows": "variant", "conditions": "filter", "proxies": {"e": "actor/entropy"}, "outcome": "final"}
    verdict = correlated(frames, experiment, **options)
    assert verdict.value is None  # as before: its numbers are in the rows alone
    for row in verdict.as_dict()["rows"]:
        assert (row["estimate"], row["over"], row["units"], row["values"]) == (pytest.approx(1.0), "settings", 9, 54)
        assert row["low"] <= row["estimate"] <= row["high"] and row["unit"] == ""


def test_looks(made):
    plan = Decide((8, 12), error=0.01)
    frames, experiment = made(noisy(0.3), seeds=12, decide=plan)
    verdict = mean_delta_positive(frames, experiment, smallest=5.0, **CHANGE)
    assert verdict.control == ErrorControl("looks", 0.01, 2, 2) and verdict.status == "shown"
    assert verdict.control.in_words == "one-sided at 1 %, over all of 2 planned looks and 2 rows"
    for row in agreeing(verdict).values():
        assert (row["finding"], row["level"], row["p"], row["tests"]) == ("shown", 0.98, None, {})
        assert row["units"] in (8, 12) and len(row["run_ids"]) == 2 * row["units"] and row["wanted"] == 12
    frames.metrics = frames.metrics.iloc[:0]
    frames.runs["outcome"] = None
    for row in agreeing(mean_delta_positive(frames, experiment, smallest=5.0, **CHANGE)).values():
        assert row["finding"] == "without enough data" and row["estimate"] is row["low"] is None and row["units"] == 0


def test_the_interval_of_one_seed_is_none(made):
    frames, experiment = made(noisy(0.2), seeds=1)
    for row in agreeing(mean_delta_positive(frames, experiment, **CHANGE)).values():
        assert row["low"] is row["level"] is None and row["over"] == "" and row["finding"] == "without enough data"


def test_planned_looks_divide_the_error():
    assert ErrorControl("one test", 0.025, 1, 4).in_words.endswith("one test, divided among 4 planned looks")


def test_the_scale_is_always_said(make_experiment):
    fields = {"rows": ["PPO"], "tasks": ["sokoban"], "seeds": range(3)}
    experiment = make_experiment(**fields)
    ids = [run.id for run in experiment.runs]
    assert scale_in_words(experiment, ids) == "stand-ins, 3 seeds"
    assert scale_in_words(make_experiment(evidence="real scale, one seed", **fields), ids) == "real scale, one seed"
    for run in experiment.runs:
        run.config["scale"] = "smoke"
        run.config["model"]["path"] = "a model"
    assert scale_in_words(experiment, ids[:1]) == "scale smoke, 1 seed"
    assert scale_in_words(experiment, []) == "0 runs"


def test_how_a_verdict_was_reached_in_words(made):
    fields = {"rows": "variant", "measure": "final", "builds": "fixed", "smallest": 5.0}
    for decide, words in ((None, "95 % of each row alone"), (Decide((8, 12), error=0.01), "98 % over all looks")):
        frames, experiment = made(noisy(0.3), seeds=12, decide=decide)
        verdict = replace(mean_delta_positive(frames, experiment, **fields), scale="stand-ins", expected=("open",))
        (line,) = verdict_lines([Judged(experiment, [verdict])])
        assert line.how.startswith("stand-ins; error: one-sided at ") and f"; intervals: {words}; " in line.how
        assert line.how.endswith("expected: open (differs)")
