"""CSV files become runs: one long file, or a file for each run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

LONG = "lr,width,seed,step,loss,acc\n" + "".join(
    f"{lr},{width},{seed},{step},{lr * width / step + seed},{step / 4}\n"
    for lr in (0.1, 1e-3)
    for width in (8, 16)
    for seed in (3, 4)
    for step in (1, 2, 4)
)


def test_one_long_file_gives_its_numbers(plat, project, stored, means):
    Path("all.csv").write_text(LONG)
    code, out, err = plat(
        "import", "table", "all.csv", "--axes", "lr,width", "--out", "lr.yaml", "--metrics", "loss,acc"
    )
    assert (code, err) == (0, "") and "lr.yaml: 8 runs of table, axes: lr, width, seed" in out
    assert "report: plat-home/reports/lr/report.html" in out and "The effect of width" in out
    expected = {
        (lr, width, seed): {
            "acc": [(step, step / 4) for step in (1, 2, 4)],
            "loss": [(step, lr * width / step + seed) for step in (1, 2, 4)],
        }
        for lr in (0.1, 1e-3)
        for width in (8, 16)
        for seed in (3, 4)
    }
    assert stored("lr.yaml", "lr", "width", "seed") == expected


def test_settings_with_different_seeds_have_means_and_no_effects(plat, project):
    Path("all.csv").write_text("".join(line for line in LONG.splitlines(True) if not line.startswith("0.1,8,4")))
    code, out, err = plat("import", "table", "all.csv", "--axes", "lr,width", "--out", "lr.yaml")
    assert (code, err) == (0, "") and "acc by lr, width" in out and "The effect of" not in out
    assert "'matrix.seed=[3]' leaves the runs that all settings have" in out
    code, out, err = plat("report", "lr.yaml", "matrix.seed=[3]")
    assert (code, err) == (0, "") and "The effect of lr" in out and "The effect of width" in out


@pytest.mark.parametrize("options", [["--axes", "lr,width"], ["--metrics", "loss,acc"], ["--axes", "width,lr,seed"]])
def test_the_columns_of_axes_follow_from_either_option(plat, project, options):
    Path("all.csv").write_text(LONG)
    assert plat("import", "table", "all.csv", "--out", "lr.yaml", "--no-sweep", *options)[0] == 0
    text = Path("lr.yaml").read_text()
    assert "  lr: [0.001, 0.1]\n" in text and "  width: [8, 16]\n" in text and "  seed: [3, 4]\n" in text
    assert "Nothing to do" not in plat("plan", "lr.yaml")[1]


def test_what_pandas_excel_and_lightning_write(plat, project, stored):
    lines = [",Unnamed: 0,lr,step,loss,val", "0,7,0.1,1,0.5,", "1,8,0.1,1,,0.7", "2,9,0.2,1,0.25,"]
    Path("all.csv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert plat("import", "table", "all.csv", "--metrics", "loss,val", "--out", "lr.yaml")[0] == 0
    expected = {(0.1,): {"loss": [(1, 0.5)], "val": [(1, 0.7)]}, (0.2,): {"loss": [(1, 0.25)]}}
    assert stored("lr.yaml", "lr") == expected


PATHS = {
    "lr=0.1,seed=2/log.csv": {"lr": 0.1, "seed": 2},
    "lr=1e-3-seed=2/log.csv": {"lr": 1e-3, "seed": 2},
    "lr=0.5_weight_decay=0.2/seed=2.csv": {"lr": 0.5, "weight_decay": 0.2, "seed": 2},
    "optim.name=adam-w/seed=2.csv": {"optim.name": "adam-w", "seed": 2},
}


def test_many_files_take_their_values_from_their_paths(plat, project, stored):
    for place in PATHS:
        Path("logs", place).parent.mkdir(parents=True)
        Path("logs", place).write_text("epoch,loss\n1,0.5\n2,0.25\n")
    assert plat("import", "table", "logs", "--out", "mine.yaml")[0] == 0
    found = stored("mine.yaml", "lr", "weight_decay", "optim.name", "seed")
    keys = ("lr", "weight_decay", "optim.name", "seed")
    assert set(found) == {tuple(values.get(key) for key in keys) for values in PATHS.values()}
    assert all(curves == {"loss": [(1, 0.5), (2, 0.25)]} for curves in found.values())


def test_configs_beside_the_files_and_runs_without_seed_or_step(plat, project, stored):
    for number, lr in enumerate((0.1, 0.1, 0.01)):
        folder = Path("logs", f"run{number}")
        folder.mkdir(parents=True)
        (folder / "log.csv").write_text(f"loss,note\n{number},x\n{number + 0.5},\n")
        (folder / "config.json").write_text(json.dumps({"optim": {"lr": lr}, "model": "small", "out": str(folder)}))
    Path("logs/run2/config.yaml").write_text("optim: {lr: 1e-2}\n")
    code, out, _ = plat("import", "table", "logs", "--out", "mine.yaml")
    assert code == 0 and "no axis, because it only names the runs: out" in out
    found = {label: curves["loss"] for label, curves in stored("mine.yaml", "optim.lr", "seed").items()}
    lines = {number: [(1, number), (2, number + 0.5)] for number in range(3)}
    assert found == {(0.1, 0): lines[0], (0.1, 1): lines[1], (0.01, 0): lines[2]}
    assert "# The same in all runs: model=small\n" in Path("mine.yaml").read_text()


@pytest.mark.parametrize(
    ("files", "arguments", "message"),
    [
        ({}, ["no.csv"], "there is no such file"),
        ({"a/x.txt": ""}, ["a"], r"the folder has no such file: \*.csv"),
        ({"a.csv": ""}, ["a.csv"], "the file has no rows"),
        ({"a.csv": "1,0.5\n2,0.4\n"}, ["a.csv"], "the first line must name the columns.*a.csv:1"),
        ({"a.csv": "lr;loss\n1;2\n"}, ["a.csv"], r"which columns are axes.*columns: lr, loss"),
        ({"a.csv": "lr;loss\n1;2;3\n"}, ["a.csv"], r"3 cells, and the header has 2.*a.csv:2.*separated by ';'"),
        ({"a.csv": "lr,loss\n1,0.5\n1,12%\n"}, ["a.csv", "--axes", "lr"], r"loss has numbers, and here '12%'.*a.csv:3"),
        ({"a.csv": 'lr,loss\n1,"0.5\n'}, ["a.csv", "--axes", "lr"], r"a quote is not closed.*a.csv:2"),
        ({"a.csv": "lr,loss,loss\n1,2,3\n"}, ["a.csv", "--axes", "lr"], r"two columns are called 'loss'"),
        ({"a.csv": "lr,step,loss\n1,first,3\n"}, ["a.csv", "--axes", "lr"], r"step is 'first'.*a.csv:2"),
        (
            {f"{arm}/r{number}.csv": "loss\n1\n" for arm in "ab" for number in (0, 1)},
            ["a", "b"],
            r"in different folders.*a -> arm=a.*--seed none",
        ),
        (
            {f"{arm}/seed{number}.csv": "loss\n1\n" for arm in "ab" for number in (0, 1)},
            ["a", "b"],
            r"same values and seed \(seed=0\)",
        ),
        ({"a.csv": "lr,loss\n1,2\n"}, ["a.csv"], r"which columns are axes.*columns: lr, loss"),
        ({"a.csv": "lr,loss\n1,2\n"}, ["a.csv", "--axes", "rl"], r"no column 'rl'.*columns: lr, loss"),
        ({"a.csv": "lr,loss\n1,2\n"}, ["a.csv", "--axes", "lr", "--step", "t"], "no column 't'"),
        ({"a.csv": "lr,loss\n1,2,3\n"}, ["a.csv", "--axes", "lr"], r"3 cells, and the header has 2.*a.csv:2"),
        ({"a.csv": "lr,step,loss\n1,1.5,3\n"}, ["a.csv", "--axes", "lr"], r"step is '1.5'.*a.csv:2"),
        (
            {"a.csv": "lr,step,loss\n1,1,3\n1,1,4\n"},
            ["a.csv", "--axes", "lr"],
            r"a.csv:2 and a.csv:3 have the same.*--seed",
        ),
        ({"a.csv": "lr,loss\n1,x\n"}, ["a.csv", "--axes", "lr"], "no run has a metric"),
        ({"a.csv": "lr,loss\n1,2\n"}, ["a.csv", "--axes", "lr", "--seed", "s"], r"there is no column 's'"),
        ({"a.csv": "lr,seed,loss\n1,x,2\n"}, ["a.csv", "--axes", "lr"], r"seed is 'x'|seed .* is 'x'"),
        ({"a/a.csv": "l\n1\n", "a/b.csv": "l\n1\n", "a/config.json": "{"}, ["a"], "the config cannot be read"),
        (
            {"a/seed=1.csv": "l\n1\n", "a/b/seed=1.csv": "l\n1\n"},
            ["a"],
            r"same values and seed \(seed=1\): a/b/seed=1.csv and a/seed=1.csv",
        ),
        ({"a/b.csv": "l\n1\n", "a/config.json": '{"a":' * 9000 + "1" + "}" * 9000}, ["a"], "nested too deeply"),
        ({"a/b.csv": "größe\n1\n".encode("latin1")}, ["a"], "not UTF-8, but maybe latin1: iconv -f latin1 -t utf-8 b"),
        ({"a/b.csv": "l\n1\n".encode("utf-16")}, ["a"], "maybe utf-16: iconv -f utf-16"),
        ({"a/b.csv": "l\n\0\n"}, ["a"], "no run has a metric|the file cannot be read"),
        ({"a/b.csv": "l\n1\n"}, ["a", "--axes", "lr"], "no run has the value 'lr'"),
        ({"a/b.csv": "l\n1\n"}, ["a", "--metrics", "loss"], "no run has the metric 'loss'"),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing(plat, project, files, arguments, message):
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    before = sorted(Path.cwd().rglob("*"))
    code, _, err = plat("import", "table", *arguments, "--out", "new.yaml")
    assert code == 2 and re.search(message, err, flags=re.S), err
    assert sorted(Path.cwd().rglob("*")) == before


def test_numbers_with_thousands_separators_are_numbers(plat, project, stored):
    rows = ['0.1,0,1,"950.5"', '0.1,0,2,"1,020.5"', '0.2,0,1,"900"', '0.2,0,2,"990"']
    Path("all.csv").write_text("lr,seed,step,reward\n" + "\n".join(rows))
    assert plat("import", "table", "all.csv", "--axes", "lr", "--out", "lr.yaml")[0] == 0
    expected = {(0.1,): {"reward": [(1, 950.5), (2, 1020.5)]}, (0.2,): {"reward": [(1, 900), (2, 990)]}}
    assert stored("lr.yaml", "lr") == expected


def test_semicolons_stand_beside_decimal_commas(plat, project, stored):
    Path("all.csv").write_text("lr;step;loss\n1;1;1.020\n1;2;0,5\n2;1;7\n2;2;1.000,25\n")
    assert plat("import", "table", "all.csv", "--axes", "lr", "--out", "lr.yaml")[0] == 0
    expected = {(1,): {"loss": [(1, 1020), (2, 0.5)]}, (2,): {"loss": [(1, 7), (2, 1000.25)]}}
    assert stored("lr.yaml", "lr") == expected


def test_of_several_values_of_a_step_in_a_file_of_a_run_the_last_counts(plat, project, stored):
    for name in "ab":
        Path(f"seed={ord(name)}.csv").write_text("step,loss\n1,2\n1,3\n2,4\n")
    code, out, err = plat("import", "table", "seed=97.csv", "seed=98.csv", "--out", "new.yaml")
    assert code == 0 and "2 values of a metric had a later one at the same step, which counts" in out + err
    assert stored("new.yaml", "seed") == {(seed,): {"loss": [(1, 3), (2, 4)]} for seed in (97, 98)}


def test_a_spelling_that_differs_is_another_setting(plat, project, stored):
    rows = ["3.1,7,0,1,0.5", "3.10,7,0,1,9.5", "3.9,7,0,1,0.1", "3.9,007,0,1,4"]
    Path("all.csv").write_text("python,id,seed,step,loss\n" + "\n".join(rows))
    assert plat("import", "table", "all.csv", "--axes", "python,id", "--out", "new.yaml")[0] == 0
    ends = {label: curves["loss"][0][1] for label, curves in stored("new.yaml", "python", "id").items()}
    assert ends == {("3.1", "7"): 0.5, ("3.10", "7"): 9.5, ("3.9", "7"): 0.1, ("3.9", "007"): 4}


def test_one_column_with_decimal_commas_decides_for_the_file(plat, project, stored):
    Path("de.csv").write_text(
        "lr;seed;step;ret\n0,1;0;1.000;1.020\n0,1;1;1.000;1.030\n0,2;0;1.000;990\n0,2;1;1.000;980"
    )
    assert plat("import", "table", "de.csv", "--axes", "lr", "--out", "new.yaml")[0] == 0
    found = stored("new.yaml", "seed", "lr")
    assert sorted(curves["ret"] for curves in found.values()) == [[(1000, ret)] for ret in (980, 990, 1020, 1030)]
    Path("open.csv").write_text("lr;ret\n1;1.020\n2;990\n")
    code, _, err = plat("import", "table", "open.csv", "--axes", "lr", "--out", "open.yaml")
    assert code == 2 and re.search(r"'1.020' in the column ret is 1.02 or 1020.0.*open.csv:2", err, flags=re.S), err
