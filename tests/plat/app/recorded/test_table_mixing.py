"""What would mix two runs of a table, or lose a number, is refused or said."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest


def recorded(folder):
    """(values, seed) -> metric -> [(step, number)], of the recordings of an import."""
    found = {}
    for path in sorted(Path(folder).glob("*.jsonl")):
        first, *rows = [json.loads(line) for line in path.read_text().splitlines()]
        curves: dict[str, list] = {}
        for row in rows:
            for name, value in row["metrics"].items():
                curves.setdefault(name, []).append((row["step"], value))
        found[(*first["values"].values(), first["seed"])] = curves
    return found


def imported(plat, text, *arguments, name="a.csv"):
    Path(name).write_text(text)
    code, out, err = plat("import", "table", name, *arguments, "--out", "new.yaml", "--no-sweep")
    return (recorded("new-runs") if code == 0 else {}), out, err


def test_a_run_that_restarts_is_another_run(plat, project):
    """Its rows belong to none of the steps that the first run lacks, and equal first values do not join the two."""
    rows = [(10, 0.9), (20, 0.8), (5, 0.1), (10, 0.2), (15, 0.3)]
    text = "lr,seed,step,loss\n" + "".join(f"1,0,{step},{loss}\n" for step, loss in rows)
    found, _, _ = imported(plat, text, "--axes", "lr", "--repeated", "first")
    assert found == {(1, 0): {"loss": rows[:2]}}
    rows = [(1, 0.9), (2, 0.8), (1, 0.9), (2, 0.5), (3, 0.4)]
    text = "lr,seed,step,loss\n" + "".join(f"1,0,{step},{loss}\n" for step, loss in rows)
    Path("new.yaml").unlink()
    shutil.rmtree("new-runs")
    assert imported(plat, text, "--axes", "lr", "--repeated", "longest")[0] == {(1, 0): {"loss": rows[2:]}}


MIXED = "lr,seed,step,loss\n1,0,1,0.9\n1,0,1,0.1\n1,0,2,0.8\n1,0,2,0.2\n"


@pytest.mark.parametrize(
    ("name", "text", "arguments", "message"),
    [
        ("a.csv", MIXED, ["--axes", "lr", "--repeated", "longest"], "are two runs mixed"),
        ("a.csv", ",seed,score\nppo,0,0.5\nsac,0,0.6\n", ["--metrics", "score"], "a column without a name has 'ppo'"),
        ("a.csv", "lr,iters,a\n1,1,0.5\n", ["--axes", "lr", "--step", "iterz"], "there is no column 'iterz'"),
        ("a.csv", "lr,step,a\n1,1,0.5\n1,2,1_0\n", ["--axes", "lr"], "the column a has numbers, and here '1_0'"),
        (
            "a.csv",
            "run,metric,value\na,loss,0.5\na,,0.1\n",
            ["--axes", "run", "--name", "metric", "--value", "value"],
            "no name",
        ),
        ("a.json", '[{"lr":1,"a":[{"x":1}],"b":[{"y":1}]}]', ["--axes", "lr"], "two lists of objects, 'a' and 'b'"),
        (
            "a.json",
            '[{"lr":1,"step":1,"c":[2,3]},{"lr":2,"step":1,"c":[2,3]}]',
            ["--axes", "lr"],
            "'c' has 2 values at one step",
        ),
        (
            "a.json",
            '[{"lr":1,"ok":true,"step":1},{"lr":1,"ok":0.5,"step":2}]',
            ["--axes", "lr"],
            "'ok' has numbers, and a text",
        ),
    ],
)
def test_what_would_mix_or_lose_numbers_is_refused(plat, project, name, text, arguments, message):
    found, _, err = imported(plat, text, *arguments, name=name)
    assert not found and message in err, err


@pytest.mark.parametrize(
    ("name", "text", "arguments", "expected"),
    [
        (
            "a.csv",
            "lr,Step,step,a\n1,1,10,0.5\n2,1,20,0.7\n",
            ["--axes", "lr", "--step", "step", "--metrics", "a"],
            {(1, 0): {"a": [(10, 0.5)]}, (2, 0): {"a": [(20, 0.7)]}},
        ),
        (
            "a.csv",
            "run,score\n#1,0.5\nc,0.7\n",
            ["--axes", "run"],
            {("#1", 0): {"score": [(1, 0.5)]}, ("c", 0): {"score": [(1, 0.7)]}},
        ),
        (
            "a.json",
            '[{"lr":1,"step":1,"a":1e400,"n":18446744073709551616},{"lr":2,"step":1,"a":"0.5","n":5}]',
            ["--axes", "lr"],
            {(1, 0): {"a": [(1, float("inf"))], "n": [(1, 2.0**64)]}, (2, 0): {"a": [(1, 0.5)], "n": [(1, 5.0)]}},
        ),
        (
            "a.json",
            '[{"lr":1,"a":0.5,"tags":["x","y"]},{"lr":2,"a":0.6,"tags":[]}]',
            ["--axes", "lr"],
            {(1, 0): {"a": [(1, 0.5)]}, (2, 0): {"a": [(1, 0.6)]}},
        ),
        (
            "a.json",
            '{"lr":[1,1,2],"step":[1,2,1],"a":[1,2,3]}',
            ["--axes", "lr"],
            {(1, 0): {"a": [(1, 1.0), (2, 2.0)]}, (2, 0): {"a": [(1, 3.0)]}},
        ),
        (
            "a.json",
            '{"lr":{"0":1,"1":2},"step":{"0":1,"1":1},"a":{"0":0.5,"1":0.4}}',
            ["--axes", "lr"],
            {(1, 0): {"a": [(1, 0.5)]}, (2, 0): {"a": [(1, 0.4)]}},
        ),
        (
            "a.json",
            '{"3.1":[{"step":1,"a":1}],"3.10":[{"step":2,"a":9}]}',
            ["--levels", "version"],
            {(3.1, 0): {"a": [(1, 1.0)]}, ("3.10", 0): {"a": [(2, 9.0)]}},
        ),
        (
            "a.csv",
            "seed,rep,step,a\n1,0,1,0.5\n2,0,1,0.6\n",
            ["--axes", "seed", "--seed", "rep"],
            {(1, 0): {"a": [(1, 0.5)]}, (2, 0): {"a": [(1, 0.6)]}},
        ),
    ],
)
def test_what_was_read_wrongly_once(plat, project, name, text, arguments, expected):
    found, _, err = imported(plat, text, *arguments, name=name)
    assert found == expected, err


def test_rows_that_are_counted_as_steps_are_said(plat, project):
    found, out, _ = imported(plat, "method,task,score\na,x,0.5\na,y,0.6\nb,x,0.7\nb,y,0.8\n", "--axes", "method")
    assert "no column counts steps" in out and len(found) == 2


def test_sources_in_the_folder_that_is_replaced_are_kept(plat, project):
    Path("lr-runs").mkdir()
    for lr in (1, 2):
        Path(f"lr-runs/lr={lr}.jsonl").write_text('{"step": 1, "loss": 0.1}\n')
    code, _, err = plat("import", "table", "lr-runs", "--out", "lr.yaml", "--force")
    assert code == 2 and "which the import replaces" in err and len(list(Path("lr-runs").glob("lr=*"))) == 2


def test_names_of_files_keep_their_decimals_and_count_once(plat, project):
    for lr in ("0.1", "0.2"):
        Path(f"lr={lr}.csv.gz").write_bytes(gzip.compress(b"step,l\n1,2\n"))
    files = ["lr=0.1.csv.gz", "lr=0.2.csv.gz", str(Path("lr=0.1.csv.gz").absolute())]
    assert plat("import", "table", *files, "--out", "new.yaml", "--no-sweep")[0] == 0
    assert set(recorded("new-runs")) == {(0.1, 0), (0.2, 0)}


def test_a_path_that_fits_in_two_ways_is_refused(plat, project):
    Path("a").mkdir()
    Path("a/dqn-rainbow-pong.csv").write_text("step,l\n1,2\n")
    code, _, err = plat("import", "table", "a", "--path", "{algorithm}-{task}.csv", "--dry-run")
    assert code == 2 and "fits the pattern in two ways" in err


def test_a_header_that_comes_again_as_a_comment_is_none(plat, project):
    """As numpy writes it into a file that grows."""
    found, _, err = imported(plat, "# lr,step,a\n1,1,0.5\n# lr,step,a\n1,2,0.7\n2,1,0.6\n", "--axes", "lr")
    assert found == {(1, 0): {"a": [(1, 0.5), (2, 0.7)]}, (2, 0): {"a": [(1, 0.6)]}}, err


def test_steps_of_two_columns_are_not_mixed(plat, project):
    text = "step,epoch,lr,loss\n1,1,1,5\n,2,1,4\n"
    assert "a.csv:3" in imported(plat, text, "--axes", "lr")[2]
    found, _, err = imported(plat, text, "--axes", "lr", "--step", "epoch", "--metrics", "loss")
    assert found == {(1, 0): {"loss": [(1, 5.0), (2, 4.0)]}}, err


@pytest.mark.parametrize(
    ("spelled", "values", "note"),
    [
        (("0.001", "1e-3"), {0.001}, ""),
        (("1", "1.0"), {1.0}, ""),
        (("True", "TRUE"), {True}, ""),
        (("3.1", "3.10"), {"3.1", "3.10"}, "lr: 3.1 and 3.10 are two values; if they are one, write them alike"),
    ],
)
def test_one_number_in_two_spellings(plat, project, spelled, values, note):
    rows = [f"{text},{seed},1,{seed}" for seed, text in enumerate((*spelled, "7"))]
    found, out, err = imported(plat, "lr,seed,step,loss\n" + "\n".join(rows) + "\n", "--axes", "lr")
    assert {lr for lr, _ in found} == values | ({"7"} if note else {7}) and (
        note in out if note else "spell" not in out
    ), err


def test_runs_of_different_lengths_are_said(plat, project):
    text = "lr,seed,step,loss\n1,0,1,5\n1,0,2,4\n2,0,1,5\n"
    assert "runs end at different steps, from 1 to 2" in imported(plat, text, "--axes", "lr")[1]
