"""`script.metric` and `script.goal`: the metric that says how well a run of a script did."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fresh_plat import fresh_plat

SCRIPT = """
import json, sys
lr, seed = map(float, sys.argv[1:])
for step in (1, 2):
    print(json.dumps({"step": step, "aux": 1, "Val Loss": lr / step + seed / 100, "zz": 3}))
"""
FILE = """
title: x
base: {trainer: script, script.command: "python t.py {lr} {seed}"}
matrix: {lr: [1, 2], seed: [0, 1, 2, 3, 4]}
"""
SEARCH = """
title: x
base: {trainer: script, script.command: "python t.py {lr} 0", script.metric: Val Loss, script.goal: minimize}
space: {lr: {float: [1.0, 2.0]}}
trials: 2
"""


@pytest.fixture
def plat(tmp_path: Path) -> Callable[..., str]:
    (tmp_path / "t.py").write_text(SCRIPT)
    (tmp_path / "plain.yaml").write_text(FILE)
    (tmp_path / "m.yaml").write_text(FILE.replace("base: {", "base: {script.metric: Val Loss, "))
    (tmp_path / "s.yaml").write_text(SEARCH)

    def run(*arguments: str, code: int = 0) -> str:
        environment = {**os.environ, "COLUMNS": "200", "PLAT_HOME": str(tmp_path / "home")}
        done = fresh_plat(*arguments, cwd=tmp_path, env=environment)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_it_is_the_headline_everywhere_and_makes_no_new_run(plat):
    plat("sweep", "plain.yaml", "--first", "9")
    shown = plat("sweep", "m.yaml", "-v")
    assert shown.count(" started ") == 1 and re.search(r"finished +lr2-s4-\w+ \([^)]*, Val Loss 1.04\)", shown)
    assert "10 missing" not in plat("plan", "m.yaml") and "Nothing to do" in plat("plan", "plain.yaml")
    shown = plat("report", "m.yaml")
    assert "The effect of lr on Val Loss" in shown and "%" not in shown.partition("95 %")[0]
    assert "Other metrics" in shown
    assert "Val Loss 0.5 " in plat("status", "m.yaml")
    header, first, *_ = plat("runs", "m.yaml").splitlines()
    assert header.split()[-2:] == ["Val", "Loss"] and first.split()[-1] == "0.5" and "success" not in header


def test_runs_that_have_not_begun_are_listed(plat):
    assert plat("runs", "m.yaml").count("missing") == 10
    assert "there is no column 'Val Loss'" in plat("runs", "m.yaml", "--columns", "+Val Loss", code=2)


def test_columns_and_conditions_may_name_a_metric_with_a_blank(plat):
    plat("sweep", "plain.yaml")
    assert "aux" in plat("runs", "plain.yaml")  # the columns that plat chooses
    shown = plat("runs", "plain.yaml", "--columns", "seed,Val Loss,max:Val Loss", "--sort", "-Val Loss")
    assert shown.splitlines()[1].split() == ["4", "1.04", "2.04"]
    assert len(plat("runs", "plain.yaml", "--where", "Val Loss<=0.51").splitlines()) == 3
    assert "columns have commas between them" in plat("runs", "plain.yaml", "--columns", "seed lr", code=2)


def test_a_search_without_objectives_takes_it(plat):
    assert "minimize Val Loss (last)" in plat("tune", "s.yaml")


def test_a_goal_is_minimize_or_maximize(plat):
    assert "did you mean 'minimize'" in plat("plan", "m.yaml", "script.goal=minimise", code=2)


def test_columns_of_scripts_have_their_own_names(plat, tmp_path):
    (tmp_path / "t.py").write_text(SCRIPT.replace('"zz": 3', '"zz": 3, "lr": 9'))
    claim = "claims: [{id: c, says: x, check: mean_delta_positive, measure: {metric: METRIC}, smallest: 1}]\n"
    for name in ("zz", "lr"):
        (tmp_path / f"{name}.yaml").write_text(FILE + claim.replace("METRIC", name))
    plat("sweep", "zz.yaml")
    header, first, *_ = plat("runs", "zz.yaml", "--csv").splitlines()
    assert header == "run,state,lr,seed,attempts,step,seconds,zz" and first.split(",")[5::2] == ["2", "3.0"]
    header, first, *_ = plat("runs", "lr.yaml", "--csv").splitlines()
    assert header.split(",")[-1] == "metric:lr" and first.split(",")[-1] == "9.0" and first.split(",")[2] == "1"
    rows = plat("runs", "zz.yaml", "--csv", "--columns", "seed,iteration,step,metric:lr").splitlines()
    assert rows[1] == "0,2,2,9.0"
