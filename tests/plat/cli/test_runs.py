"""`plat runs`: its columns are what the run directories say."""

from __future__ import annotations

import csv
import io
import json

import pytest

COLUMNS = "run,attempts,iteration,success,best,walk/norm,max:walk/norm"


@pytest.fixture
def three(executed):
    """A finished run, one that failed, and one that was killed before its second attempt finished it."""
    return [executed(seed=0), executed(seed=1, mischief="error"), executed(seed=2, mischief="error_once", twice=True)]


def table_of(plat, *arguments):
    code, out, err = plat("runs", "--csv", *arguments)
    assert (code, err) == (0, "")
    return list(csv.DictReader(io.StringIO(out)))


def test_every_column_is_what_the_run_recorded(plat, three):
    rows = {row["run"]: row for row in table_of(plat, "--columns", COLUMNS)}
    assert set(rows) == {paths_name(paths) for paths in three}
    for paths in three:
        row = rows[paths_name(paths)]
        events = [json.loads(line) for attempt in paths.attempts() for line in open_lines(attempt.events)]
        norms = {
            event["step"]: event["metrics"]["walk/norm"] for event in events if "walk/norm" in event.get("metrics", {})
        }
        success = [event["metrics"]["val/success"] for event in events if "val/success" in event.get("metrics", {})]
        assert float(row["max:walk/norm"]) == max(norms.values()) and float(row["walk/norm"]) == norms[max(norms)]
        assert float(row["best"]) == max(success) and float(row["success"]) == success[-1]
        assert row["attempts"] == str(len(paths.attempts())) and row["iteration"] == str(max(norms))


def test_conditions_order_and_the_axes_that_vary(plat, three):
    assert [row["state"] for row in table_of(plat, "--sort", "seed")] == ["done", "failed", "done"]
    assert [row["seed"] for row in table_of(plat, "--sort", "-seed")] == ["2", "1", "0"]
    assert [
        row["seed"] for row in table_of(plat, "--where", "state=done", "--where", "seed>0", "--columns", "seed")
    ] == ["2"]
    assert "seed" not in table_of(plat, "--where", "seed=0")[0], "one run has no axis that varies"


def test_runs_are_chosen_by_config_keys_that_no_axis_varies(plat, three, spec):
    assert len(table_of(plat, "--where", "micro=1", "--where", "train.iterations>1")) == 3
    assert plat("runs", "--where", "train.iterations>1000") == (0, "no run fits\n", "")
    rows = table_of(plat, "--columns", "seed,train.iterations", "--sort", "train.iterations")
    assert {row["train.iterations"] for row in rows} == {"6"}
    planned = spec("title: t\nbase: {trainer: 'plat_toy:Toy', recipe: soup}\nmatrix: {seed: [7]}\n", "planned.yaml")
    assert len(table_of(plat, planned, "--where", "recipe=soup")) == 1, "a run without a directory has a config, too"


def test_json_has_every_field_of_every_run(plat, three):
    listed = json.loads(plat("runs", "--json", "--where", "seed=1")[1])["runs"]
    assert len(listed) == 1
    assert listed[0]["axes"] == {"seed": 1} and listed[0]["outcome"] == "failed:error" and listed[0]["files"] == "a"
    assert "a mistake in the toy" in listed[0]["reason"] and listed[0]["seconds"] > 0


def test_a_state_that_no_run_has_now_is_no_mistake(plat, three):
    assert plat("runs", "--where", "state=running") == (0, "no run fits\n", "")


def test_runs_that_no_home_has_yet(plat, spec, home):
    text = "title: A test\nbase: {trainer: 'plat_toy:Toy'}\nmatrix:\n  seed: [0, 1]\n"
    rows = table_of(plat, spec(text))
    assert [row["state"] for row in rows] == ["missing", "missing"] and not home.exists()
    assert plat("runs")[1].startswith("no runs in")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--columns", "sucess"], "'success'"),
        (["--columns", "walk/nrm"], "'walk/norm'"),
        (["--sort", "sead"], "'seed'"),
        (["--where", "sead=1"], "'seed'"),
        (["--where", "state=don"], "'done'"),
        (["--where", "train.iteration=6"], "'train.iterations'"),
        (["--where", "mischief=nonne"], "'none'"),
    ],
)
def test_misspelt_columns_get_the_nearest_name(plat, three, arguments, hint):
    code, out, err = plat("runs", *arguments)
    assert (code, out) == (2, "") and f"did you mean {hint}?" in err


def paths_name(paths):
    return json.loads(paths.meta.read_text())["name"]


def open_lines(path):
    return path.read_text().splitlines()


SHARED = """title: t
base: {scale: smoke, task: frozenlake}
matrix: {filter: [none, top_p], filter.eps: [0.0, 0.01], seed: [0]}
"""


@pytest.mark.parametrize(
    ("where", "filters"),
    [
        (["filter.eps=0.01"], ["none", "top_p"]),
        (["filter=none", "filter.eps=0.01"], ["none"]),
        (["filter.eps!=0.0"], ["none", "top_p"]),
        (["filter.eps=0.0", "filter=top_p"], ["top_p"]),
    ],
)
def test_a_run_is_meant_when_one_of_the_positions_that_share_it_is(plat, spec, where, filters):
    """Without a filter, its eps has no effect: both positions of the matrix are one run."""
    conditions = [word for text in where for word in ("--where", text)]
    assert [row["filter"] for row in table_of(plat, spec(SHARED), *conditions, "--columns", "filter")] == filters
    code, _, err = plat("runs", spec(SHARED), "--where", "filter.eps=0.02")
    assert code == 2 and "no run has filter.eps=0.02" in err
