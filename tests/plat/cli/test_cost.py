"""What runs used, in the plan, the report and `plat runs`, and its price at the rates of a profile."""

from __future__ import annotations

import json

import pytest

from plat.processes.usage import RAPL, Rapl

FILE = """
title: Which learning rate?
base: {trainer: script, script.command: python3 burn.py, script.metric: score}
matrix: {lr: [0.1, 0.2], seed: [0, 1]}
"""
BURN = """import json, sys, time
while time.process_time() < 0.4: pass
print(json.dumps({"step": 0, "score": 1.0}))
"""
RATES = "cost: {cpu_hour: 3600, kwh: 0.5, currency: EUR, kg_co2_per_kwh: 0.4}\n"


@pytest.fixture
def file(spec, toy, tmp_path):
    path = spec(FILE)
    path.with_name("burn.py").write_text(BURN)
    (tmp_path / "mine.yaml").write_text(RATES)
    return path


def test_plan_and_report_say_what_runs_use_and_cost(plat, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "EUR" not in plat("plan", file, "cluster=mine.yaml")[1]  # no similar run was measured
    assert plat("sweep", file, "seed=0", "-q")[0] == 0
    plan = json.loads(plat("plan", file, "cluster=mine.yaml", "--json")[1])["cost"]["usage"]
    code, out, _ = plat("report", file, "seed=0", "cluster=mine.yaml", "--json", "--out", tmp_path / "report")
    cost = json.loads(out)["reports"][0]["cost"]
    assert code == 0 and cost["runs"] == 2
    for used in (plan, cost):  # two runs are left, and two are done
        assert 0.8 <= used["cpu_seconds"] <= 4 and used["gpu_seconds"] == 0 and used["currency"] == "EUR"
        assert used["money"] == pytest.approx(used["cpu_seconds"] + 0.5 * (used["kwh"] or 0))
        if not Rapl(RAPL):
            assert used["kwh"] is None and used["money_without"] == ["electricity"] and used["kg_co2"] is None
    page = (tmp_path / "report" / "report.html").read_text()
    assert "of CPU time" in page and " EUR" in page
    assert "EUR" in plat("plan", file, "cluster=mine.yaml")[1] and "EUR" not in plat("plan", file)[1]
    rows = json.loads(plat("runs", file, "--json")[1])["runs"]
    done = [row["cpu_seconds"] for row in rows if row["cpu_seconds"] is not None]
    assert len(done) == 2 and sum(done) == pytest.approx(cost["cpu_seconds"])


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ("{gpu_hours: 2}", "unknown rate 'gpu_hours'"),
        ("{gpu_hour: two}", "cost.gpu_hour must be a number of at least 0, not 'two'"),
        ("{kwh: -1}", "cost.kwh must be a number of at least 0, not -1"),
        ("{kwh: .nan}", "cost.kwh must be a number of at least 0"),
        ("{currency: [1]}", "cost.currency must be a text in one line"),
        ("2.1", "cost must be a mapping such as {gpu_hour: 2.1"),
    ],
)
@pytest.mark.parametrize("verb", ["plan", "report"])
def test_wrong_rates_are_refused(plat, file, tmp_path, monkeypatch, cost, message, verb):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(f"cost: {cost}\n")
    code, out, err = plat(verb, file, "cluster=mine.yaml")
    assert code == 2 and message in err and "mine.yaml:1:" in err and not out
    assert "cluster.cost={kwh: 1}" in plat(verb, file, "cluster.cost.kwh=1")[2]
    assert "no cluster profile 'absent'" in plat(verb, file, "cluster=absent")[2]
