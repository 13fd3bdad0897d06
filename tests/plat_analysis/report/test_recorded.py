"""What a report hands over to the store: estimates with intervals, verdicts, and a summary."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from plat_analysis.artifact import Table, record
from plat_analysis.claims.checks import decide_small
from plat_analysis.claims.decided import RowEvidence, RowTests, decide_rows
from plat_analysis.claims.decided import decide as decide_tests
from plat_analysis.claims.engine import Verdict
from plat_analysis.plugins.builders import Failure
from plat_analysis.report.build import build_report
from plat_analysis.report.recorded_report import estimates_of, estimates_table, recorded
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
    return recorded(replace(built, artifacts=[], claims=list(verdicts)))


def lines_of(report):
    table = json.loads(estimates_table(report), parse_constant=lambda text: pytest.fail(text))
    return [dict(zip(table["columns"], line, strict=True)) for line in table["data"]]


def test_every_estimate_is_a_row_of_the_table_and_a_metric(built):
    rows, metrics = lines_of(built), recorded(built).values
    assert {row["table"] for row in rows} == {artifact.name for artifact in built.artifacts} | {"helps"}
    for artifact in built.artifacts:
        own, lines = [row for row in rows if row["table"] == artifact.name], estimates_of(artifact)
        assert len(own) == len(lines) > 0
        for row, line in zip(own, lines, strict=True):
            assert row["run_ids"] == line["run_ids"]
            for end, value in (("", row["value"]), (".low", row["low"]), (".high", row["high"])):
                at = row["name"] + end, row.get("step") or 0
                assert metrics.get(at) == (None if value is None else pytest.approx(value, abs=1e-9))
    assert len(metrics) == sum(row[end] is not None for row in rows for end in ("value", "low", "high"))
    name = built.experiment.name
    assert f"{name}/measures/PPO/top_p/final/against none" in {key for key, _ in metrics}


def test_the_curve_of_a_condition_has_its_steps(built, make_experiment, make_frames):
    entries = [{"builder": "learning_curves", "rows": "variant", "columns": "model.base.seed"}]
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(5), report=entries)
    report = build_report(make_frames(experiment, steps=30), experiment)
    metrics, rows = recorded(report).values, lines_of(report)
    (figure,) = [one for one in report.artifacts if one.name == "learning_curves_success"]
    name = f"{experiment.name}/learning_curves_success/PPO/model.base.seed 0/top_p/val/success"
    steps = sorted(step for key, step in metrics if key == name)
    assert steps == sorted({point["step"] for point in figure.points}) and len(steps) > 2
    for step in steps:
        values = [p["value"] for p in figure.points if p["line"] == "top_p" and p["step"] == step]
        assert metrics[name, step] == pytest.approx(sum(values) / 5)
        half = 2.7764451 * (sum((v - sum(values) / 5) ** 2 for v in values) / 4 / 5) ** 0.5
        assert metrics[f"{name}.high", step] - metrics[name, step] == pytest.approx(half)
    assert {row["step"] for row in rows if row["name"] == name} == set(steps)


def test_numbers_that_json_lacks_are_null_and_an_artifact_without_estimates_has_its_key_numbers(built):
    line = record(Estimate(float("nan"), None, None, "seeds"), row="a\x1bb")
    tables = [Table("t", "T", [], [], records=[line]), Table("u", "U", [], [], values={"share": 0.5})]
    first, second = lines_of(replace(built, artifacts=tables, claims=[]))
    assert first["value"] is None and "\x1b" not in first["row"]
    assert (second["table"], second["quantity"], second["value"]) == ("u", "share", 0.5)


def test_estimates_with_equal_labels_are_told_apart(built):
    line = record(Estimate(0.5, 0.25, 0.75, "seeds"), row="a", column="0")
    tables = [Table("t", "T", [], [], records=[line, {**line, "value": 1.5}])]
    report = replace(built, artifacts=tables, claims=[])
    name = f"{built.experiment.name}/t/a/column 0"
    assert [row["name"] for row in lines_of(report)] == [name, f"{name}-2"]
    assert recorded(report).values[f"{name}-2", 0] == 1.5 and recorded(report).values[f"{name}.low", 0] == 0.25


def test_the_numbers_of_a_claim_are_metrics(built):
    found = recorded(built)
    values = [found.values[f"claim/helps/PPO{end}", 0] for end in (".low", "", ".high")]
    assert values == sorted(values) and len(set(values)) == 3
    shown = json.loads(found.tags["mlflow.loggedArtifacts"])
    assert shown == [{"path": "report/estimates.json", "type": "table"}]


def test_names_are_those_that_mlflow_accepts(built):
    bounds = {"a@b/../c": (0.25, 0.75), "x" * 400: (0.5, 0.75)}
    verdict = Verdict("open", {"a@b/../c": 0.5, "x" * 400: 0.625}, id="a#b", bounds=bounds)
    values = claiming(built, verdict).values
    assert sorted(values.values()) == [0.25, 0.5, 0.5, 0.625, 0.75, 0.75]
    for name, _ in values:
        assert re.fullmatch(r"[/\w.\- :]{1,250}", name) and ".." not in name.split("/")


def test_a_verdict_is_tags_numbers_and_a_line(built):
    found = Verdict("contradicted", {"PPO": -2.0}, "a; b", p=0.004, bounds={"PPO": (-3.0, -1.0)}, deciding="b")
    record = claiming(built, replace(found, id="x@y", says="It *helps*."), Verdict("open", id="x_y"))
    assert {name.removeprefix("plat.claim."): text for name, text in record.tags.items() if "claim" in name} == {
        "x_y": "contradicted",
        "x_y.says": "It *helps*.",
        "x_y-2": "open",
    }
    numbers = {"claim/x_y/p": 0.004, "claim/x_y/PPO": -2.0, "claim/x_y/PPO.low": -3.0, "claim/x_y/PPO.high": -1.0}
    assert record.values == {(name, 0): value for name, value in numbers.items()}
    first = r"- **contradicted** x@y: It \*helps\*. Found: b."
    assert record.summary.splitlines()[:2] == [first, r"- **open** x\_y:"]


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
    assert decide_rows({"a": above, "b": above}).deciding == "above zero in 2 of 2"
    against = decide_rows({"a": above, "b": below})
    assert against.status in ("contradicted", "not_of_this_size") and against.deciding.startswith("below zero: b −10.0")
    assert decide_rows({"a": wide}).deciding.startswith("a +0.5")
    small = decide_small({"a": above, "b": row(0.5, 0.5)})
    assert (small.status, small.deciding[:22]) == ("contradicted", "beyond ±5 points: a +1")
    tests = {"a": RowTests(0.5, 0.5, "a: flat"), "b": RowTests(0.99, 0.001, "b: rises")}
    assert decide_tests(tests).deciding == "the opposite is shown: b: rises; open: a"
