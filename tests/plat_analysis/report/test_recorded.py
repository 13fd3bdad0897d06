"""What a report hands over to the store: estimates with intervals, verdicts, and a summary."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from plat_analysis.artifact import Table, record
from plat_analysis.claims.claim_rows import RowEvidence, decide
from plat_analysis.claims.decided import RowTests
from plat_analysis.claims.decided import decide as decide_tests
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.equivalence import decide_small
from plat_analysis.plugins.failure import Failure
from plat_analysis.report.build import build_report
from plat_analysis.report.recorded_report import recorded
from plat_analysis.statistics.intervals import Estimate

REPORT = [
    {"builder": "peak_success_table", "rows": "variant", "columns": "task", "pair": "filter"},
    {"builder": "measures_table", "rows": "variant", "conditions": "filter", "measures": {"final": "final"}},
    {"builder": "metric_table", "rows": ["variant", "filter"], "columns": "task", "metrics": ["val/success"]},
]
CLAIMS = [{"id": "helps", "check": "mean_delta_positive", "says": "The filter helps <on average>."}]


@pytest.fixture
def built(make_experiment, make_frames):
    """The report of five seeds of one row, which is enough for a verdict."""
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(5), report=REPORT, claims=CLAIMS)
    return build_report(make_frames(experiment, steps=30), experiment)


def claiming(built, *verdicts):
    """The record of the report with other verdicts, and no tables."""
    return recorded(replace(built, artifacts=[], values={}, claims=list(verdicts)))


def test_every_estimate_has_its_interval_and_values_keep_their_names(built):
    values = recorded(built).values
    assert built.values.items() <= values.items() and len(built.values) > 10
    lines = [line for table in built.artifacts for line in table.records if line["low"] is not None]
    assert len(lines) > 10
    for line in lines:
        assert {line["value"], line["low"], line["high"]} <= set(values.values())
    for name in ("peak_success/PPO/sokoban/delta", "measures/PPO/top_p/final/change", "claim/helps/PPO"):
        assert values[f"{name}/low"] < values[name] < values[f"{name}/high"]
    assert not [name for name in values if name.endswith("-2")], "one number under two names"


def test_names_are_those_that_mlflow_accepts(built):
    line = record(Estimate(0.5, 0.25, 0.75, "seeds"), row="a@b/../c", column="x" * 400)
    other = record(Estimate(0.625, 0.5, 0.75, "seeds"), row="a#b/../c", column="x" * 400)
    table = Table("t", "T", [], [], records=[line, other])
    values = recorded(replace(built, artifacts=[table], values={}, claims=[])).values
    assert sorted(values.values()) == [0.25, 0.5, 0.5, 0.625, 0.75, 0.75]
    for name in values:
        assert re.fullmatch(r"[/\w.\- :]{1,250}", name) and ".." not in name.split("/")


def test_an_interval_over_instances_is_left_out(built):
    """It says nothing about another run, and a metric has no place to say so."""
    table = Table("t", "T", [], [], records=[record(Estimate(0.5, 0.4, 0.6, "instances"), row="PPO")])
    assert recorded(replace(built, artifacts=[table], values={}, claims=[])).values == {"t/PPO": 0.5}


def test_a_verdict_is_tags_numbers_and_a_line(built):
    found = Verdict("not_reproduced", {"PPO": -2.0}, "a; b", p=0.004, bounds={"PPO": (-3.0, -1.0)}, deciding="b")
    record = claiming(built, replace(found, id="x@y", says="It *helps*."), Verdict("undecided", id="x_y"))
    assert record.tags == {"claim.x_y": "not reproduced", "claim.x_y.says": "It *helps*.", "claim.x_y-2": "undecided"}
    numbers = {"claim/x_y/p": 0.004, "claim/x_y/PPO": -2.0, "claim/x_y/PPO/low": -3.0, "claim/x_y/PPO/high": -1.0}
    assert record.values == numbers
    first = r"- **not reproduced** x@y: It \*helps\*. Found: b; over all its rows p .004."
    assert record.summary.splitlines()[:2] == [first, r"- **undecided** x\_y:"]


def test_the_summary_counts_runs_and_names_the_run_with_the_files(built):
    said = recorded(built).summary
    assert said.startswith("- **") and "&lt;on average&gt;" in said
    name = built.experiment.name
    assert "10 of 10 runs have a result" in said and said.endswith(f"artifacts of the run `{name}`.")
    broken = replace(built, build_failures=[Failure("the figure", "x.yaml:1")])
    assert "1 part of the report could not be made." in recorded(broken).summary


def row(value, error):
    samples = (tuple(value + error * 5**0.5 * step for step in (-1.2, -0.6, 0.0, 0.6, 1.2)),)
    half = 2.776 * error
    return RowEvidence(
        Estimate(value, value - half, value + half, "seeds", 5, 5, error=error, units=5, freedom=4, samples=samples)
    )


def test_the_line_that_decides_is_that_of_the_verdict():
    above, below, wide = row(10.0, 0.5), row(-10.0, 0.5), row(0.5, 9.0)
    assert decide({"a": above, "b": above}).deciding == "above zero in 2 of 2"
    against = decide({"a": above, "b": below})
    assert against.status == "not_reproduced" and against.deciding.startswith("below zero in 1 of 2: b −10.0")
    assert decide({"a": wide}).deciding.startswith("not shown either way in 1 of 1: a +0.5")
    small = decide_small({"a": above, "b": row(0.5, 0.5)})
    assert (small.status, small.deciding[:22]) == ("not_reproduced", "beyond ±5 points: a +1")
    tests = {"a": RowTests(0.5, 0.5, "a: flat"), "b": RowTests(0.99, 0.001, "b: rises")}
    assert decide_tests(tests).deciding == "the opposite is shown in 1 of 2: b: rises"
