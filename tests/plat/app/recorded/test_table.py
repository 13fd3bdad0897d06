"""Tables of other forms become runs: values in paths, in files beside, in columns; JSON, JSON lines, Parquet, gzip."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pandas as pd
import pytest

TASKS, ARMS, SEEDS, STEPS = ("jump", "run fast"), ("ours", "theirs"), (1, 2, 3), (0, 100, 250)


def score(arm, task, seed, step):
    return len(arm) * step / 7 + 10 * TASKS.index(task) + seed / 3


def wide(arm, task):
    rows = [(step, score(arm, task, seed, step), seed) for seed in SEEDS for step in STEPS]
    return pd.DataFrame(rows, columns=["step", "score", "seed"])


EXPECTED = {
    (arm, task, seed): {"score": [(step, score(arm, task, seed, step)) for step in STEPS]}
    for arm in ARMS
    for task in TASKS
    for seed in SEEDS
}


def of_paths():
    for arm in ARMS:
        Path("results", arm).mkdir(parents=True)
        for task in TASKS:
            wide(arm, task).to_csv(f"results/{arm}/{task}.csv", index=False)
    return ["results", "--path", "{arm}/{task}.csv"]


def of_gzipped_tabs():
    for arm in ARMS:
        rows = pd.concat([wide(arm, task).assign(task=task) for task in TASKS])
        rows.to_csv(f"{arm}.tsv.gz", index=False, sep="\t")
    return [f"{arm}.tsv.gz" for arm in ARMS] + ["--path", "{arm}.tsv.gz", "--axes", "arm,task"]


def of_long():
    rows = [
        {"arm": arm, "task": task, "seed": seed, "step": step, "metric": name, "value": value}
        for (arm, task, seed), curves in EXPECTED.items()
        for name, curve in curves.items()
        for step, value in curve
    ]
    half = len(rows) // 2
    pd.DataFrame(rows[:half]).to_csv("first.csv", index=False)
    pd.DataFrame(rows[half:]).to_csv("second.csv", index=False)
    return ["first.csv", "second.csv", "--axes", "arm,task", "--name", "metric", "--value", "value"]


def records():
    return [
        {"arm": arm, "task": task, "seed": seed, "xs": list(STEPS), "score": [value for _, value in curves["score"]]}
        for (arm, task, seed), curves in EXPECTED.items()
    ]


def of_lists():
    Path("scores.json.gz").write_bytes(gzip.compress(json.dumps(records()).encode()))
    return ["scores.json.gz", "--axes", "arm,task", "--step", "xs", "--value", "score"]


def of_lines():
    Path("scores.jsonl").write_text("".join(json.dumps(record) + "\n\n" for record in records()))
    return ["scores.jsonl", "--axes", "arm,task", "--step", "xs", "--metrics", "score"]


def of_nested():
    tree: dict = {}
    for record in records():
        rows = [{"step": step, "score": value} for step, value in zip(STEPS, record["score"], strict=True)]
        tree.setdefault(record["arm"], {}).setdefault(record["task"], {})[str(record["seed"])] = rows
    Path("scores.json").write_text(json.dumps(tree))
    return ["scores.json", "--levels", "arm,task,seed"]


def of_histories():
    runs = [
        {"config": {k: record[k] for k in ("arm", "task", "seed")}, "history": rows}
        for record in records()
        for rows in [[{"step": s, "score": v} for s, v in zip(STEPS, record["score"], strict=True)]]
    ]
    Path("runs.json").write_text(json.dumps(runs))
    return ["runs.json", "--axes", "config.arm,config.task", "--value", "score"]


def of_parquet():
    rows = pd.concat([wide(arm, task).assign(arm=arm, task=task) for arm in ARMS for task in TASKS])
    rows.to_parquet("all.parquet", index=False)
    return ["all.parquet", "--axes", "arm,task"]


FORMS = [of_paths, of_gzipped_tabs, of_long, of_lists, of_lines, of_nested, of_histories, of_parquet]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_numbers_that_were_written(plat, project, stored, form):
    code, out, err = plat("import", "table", *form(), "--out", "all.yaml")
    assert (code, err) == (0, "") and "12 runs of table" in out
    names = ("config.arm", "config.task", "config.seed") if form is of_histories else ("arm", "task", "seed")
    assert stored("all.yaml", *names[:2], "seed") == EXPECTED


def test_a_file_beside_names_the_values(plat, project, stored):
    for size, lr in (("0.5B", "1e-3"), ("3B", "1e-4")):
        folder = Path("runs", f"Model-{size}-filteron")
        folder.mkdir(parents=True)
        (folder / "metrics.csv").write_text("# made by a tool\nstep,loss,eval loss\n1,0.5,\n2,0.25,0.75\n")
        (folder / "about.txt").write_text(f"lr     : {lr}\npath   : /data/x (.env key: A)\nat : 12:30:01\n")
    arguments = ["runs", "--path", "Model-{size}-filter{_}/metrics.csv", "--beside", "about.txt"]
    assert plat("import", "table", *arguments, "--axes", "size,lr", "--out", "new.yaml")[0] == 0
    curves = {"loss": [(1, 0.5), (2, 0.25)], "eval loss": [(2, 0.75)]}
    assert stored("new.yaml", "size", "lr") == {("0.5B", 1e-3): curves, ("3B", 1e-4): curves}


def test_a_dry_run_shows_what_would_be_imported_and_writes_nothing(plat, project):
    arguments = of_paths()
    Path("results/ours/jump.csv").unlink()
    before = sorted(Path.cwd().rglob("*"))
    code, out, err = plat("import", "table", *arguments, "--dry-run")
    assert (code, err) == (0, "") and sorted(Path.cwd().rglob("*")) == before
    assert "9 runs of table, metrics: score" in out and "  task: run fast, jump\n" in out
    assert "  seed: 1, 2, 3\n" in out and "missing: 3 of 12" in out
    assert f"  step 100: score {score('ours', 'run fast', 1, 100):.6g}\n" in out and "nothing was written" in out


RESTARTED = "arm,seed,step,score\n" + "".join(
    f"a,1,{step},{value}\n" for step, value in [(1, 10), (2, 20), (1, 11), (2, 21), (3, 31), (3, 31), (1, 12)]
)


@pytest.mark.parametrize(
    ("which", "curve"), [("longest", [(1, 11), (2, 21), (3, 31)]), ("first", [(1, 10), (2, 20)]), ("last", [(1, 12)])]
)
def test_of_runs_with_one_seed_the_chosen_one_counts_as_a_whole(plat, project, stored, which, curve):
    Path("all.csv").write_text(RESTARTED)
    code, out, _ = plat("import", "table", "all.csv", "--axes", "arm", "--repeated", which, "--out", "new.yaml")
    assert code == 0 and f"the {which} counts of the runs with the same values and seed" in out
    assert stored("new.yaml", "seed") == {(1,): {"score": curve}}


PATTERN = ["a", "--path", "{lr}.csv"]


@pytest.mark.parametrize(
    ("files", "arguments", "message"),
    [
        (
            {"a/x.csv": "l\n1\n"},
            ["a", "--path", "{lr}/{task}.csv"],
            "no file fits the pattern.*the first file is x.csv",
        ),
        ({"a/x.csv": "l\n1\n"}, ["a", "--path", "{}.csv"], r"has no name: \{\}.*\{_\}"),
        ({"a/x.csv": "l\n1\n"}, ["a", "--path", "*/{lr}.csv"], r"knows no \*"),
        ({"a/x.csv": "l\n1\n"}, ["a", "--path", "x.csv"], "names no value"),
        ({"a/x.csv": "l\n1\n"}, ["a", "--path", "{lr}/{lr}.csv"], "names 'lr' twice"),
        ({"a/x.csv": "step,l\none,1\n"}, PATTERN, "step is 'one'"),
        ({"a/x.csv": "step,l\n1,1\n", "a/b/x.csv": "step,l\n1,2\n"}, ["a", "--path", "{lr}.csv"], None),
        (
            {"a/1/x.csv": "step,seed,l\n1,0,1\n", "a/2/x.csv": "step,seed,l\n1,0,2\n"},
            ["a", "--path", "{_}/{lr}.csv"],
            "a/1/x.csv:2 and a/2/x.csv:2 have the same values and the same step 1, and both have l",
        ),
        ({"a/x.csv": "step,l\n1,=SUM(A1:A3)\n"}, PATTERN, r"has a formula.*a/x.csv:2"),
        (
            {"a.json": '[{"lr": 1, "xs": [1, 2], "ys": [1]}]'},
            ["a.json", "--axes", "lr"],
            "'xs' has 2 values, and 'ys' has",
        ),
        ({"a.json": '[{"lr": 1, "step": "x", "l": 2}]'}, ["a.json", "--axes", "lr"], "step is 'x', which is no whole"),
        ({"a.json": '[{"lr": 1, "step": 0.5, "l": 2}]'}, ["a.json", "--axes", "lr"], "step is 0.5, which is no whole"),
        (
            {"a.json": '[{"lr": 1, "l": 2}, {"lr": 1, "l": "12%"}]'},
            ["a.json", "--axes", "lr"],
            "'l' has numbers, and a text",
        ),
        ({"a.json": '[{"lr": [1], "l": 2}]'}, ["a.json", "--axes", "lr"], "'lr' is an axis or the seed.*a list here"),
        ({"a.json": "[1]"}, ["a.json", "--axes", "lr"], "record 1 is no object"),
        ({"a.json": "[]"}, ["a.json", "--axes", "lr"], "has no records"),
        ({"a.json": "{"}, ["a.json", "--axes", "lr"], "it is no JSON"),
        ({"a.json": '{"a": [{"l": 1}]}'}, ["a.json", "--levels", "x,y"], "there is no level 'y' at a"),
        ({"a.json": "[" * 9000 + "]" * 9000}, ["a.json", "--axes", "lr"], "nested too deeply"),
        ({"a.jsonl": '{"l": 1}\n[1]\n'}, ["a.jsonl", "--axes", "l"], r"the line is no object.*a.jsonl:2"),
        ({"a.parquet": "no"}, ["a.parquet", "--axes", "lr"], "the file cannot be read"),
        ({"a.csv.gz": gzip.compress(b"lr,l\n1,2\n" * 50)[:-9]}, ["a.csv.gz", "--axes", "lr"], "cut off"),
        ({"a.csv.gz": b"lr,l\n1,2\n"}, ["a.csv.gz", "--axes", "lr"], "compressed file is damaged"),
        ({"a/x.csv": "l\n1\n"}, [*PATTERN, "--beside", "about.txt"], r"there is no such file.*a/about.txt"),
        ({"a.csv": "lr,l\n1,2\n"}, ["a.csv", "--name", "l"], "no column of numbers is named"),
        ({"a.csv": "lr,l\n1,2\n"}, ["a.csv", "--axes", "lr", "--value", "loss"], "no column 'loss'.*columns: lr, l"),
        ({"a.csv": "lr,l\n1,2\n"}, ["a.csv", "--axes", "lr", "--repeated", "all"], "there is no 'all'.*longest, first"),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing(plat, project, files, arguments, message):
    for name, content in files.items():
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(Path.cwd().rglob("*"))
    code, out, err = plat("import", "table", *arguments, "--out", "new.yaml", "--no-sweep")
    if message is None:  # a file that does not fit is said
        assert code == 0 and "1 file left out, because the pattern does not fit, such as a/b/x.csv" in out
        return
    assert code == 2 and re.search(message, err, flags=re.S), err
    assert sorted(Path.cwd().rglob("*")) == before


def test_options_of_tables_are_refused_with_other_kinds(plat, project):
    assert "--path is for tables" in plat("import", "wandb", "x", "--path", "{a}.csv", "--out", "new.yaml")[2]


def test_numbers_are_those_that_pandas_reads(plat, project, stored):
    Path("a.csv").write_text(
        "run,seed,step,loss\na,1,1,0.1\na,1,2,1e-17\na,1,3,123456789.123456789\na,1,4,\na,1,5,nan\n"
    )
    assert plat("import", "table", "a.csv", "--axes", "run", "--out", "new.yaml")[0] == 0
    own = pd.read_csv("a.csv", nrows=3, float_precision="round_trip")
    curve = stored("new.yaml", "run")[("a",)]["loss"]
    wanted = own.loss.tolist()
    assert [value for _, value in curve[:3]] == wanted and [step for step, _ in curve] == [1, 2, 3, 5]
    assert curve[-1][1] != curve[-1][1]  # NaN is a value, a blank is none


def test_a_table_of_tasks_adds_values_and_one_metric_has_two_columns(plat, project, stored):
    """The domain follows from the task, so that the file zips the two."""
    for arm in ARMS:
        Path("results", arm).mkdir(parents=True)
        Path("results", arm, "jump.csv").write_text("step,reward,seed\n1,500,0\n")
        Path("results", arm, "pick.csv").write_text("step,success,seed\n1,1,0\n")
        Path("results", arm, "push.csv").write_text("step,success,seed\n1,0,0\n")
    Path("tasks.csv").write_text("task,domain\njump,control\npick,arm\npush,arm\n")
    arguments = ["results", "--path", "{method}/{task}.csv", "--join", "tasks.csv", "--value", "score=reward,success"]
    assert plat("import", "table", *arguments, "--out", "new.yaml")[0] == 0
    text = Path("new.yaml").read_text()
    assert "domain: [control, arm, arm]" in text and "zip: [[task, domain]]" in text and "exclude" not in text
    scores = {("control", "jump"): 500, ("arm", "pick"): 1, ("arm", "push"): 0}
    expected = {(arm, *key): {"score": [(1, value)]} for arm in ARMS for key, value in scores.items()}
    assert stored("new.yaml", "method", "domain", "task") == expected


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("task,domain\nrun,a\n", "there is no row with task=jump"),
        ("task,domain\njump,a\njump,b\n", "2 rows with task=jump"),
        ("env,domain\njump,a\n", "no column is a value of the runs: env, domain"),
        ("task,domain\njump\n", "it is no table"),
        (None, "the file cannot be read"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(plat, project, table, message):
    Path("a").mkdir()
    Path("a/jump.csv").write_text("step,l\n1,1\n")
    if table is not None:
        Path("tasks.csv").write_text(table)
    arguments = ["a", "--path", "{task}.csv", "--join", "tasks.csv", "--out", "new.yaml"]
    code, _, err = plat("import", "table", *arguments)
    assert code == 2 and message in err and not Path("new.yaml").exists(), err


def test_missing_cells_that_differ_in_one_axis_are_one_row(plat, project):
    arguments = of_paths()
    Path("results/ours/jump.csv").unlink()
    (Path("results/theirs/jump.csv")).write_text("step,score,seed\n1,1,2\n1,1,3\n")
    assert plat("import", "table", *arguments, "--out", "new.yaml", "--no-sweep")[0] == 0
    text = Path("new.yaml").read_text()
    assert "  - {arm: ours, task: jump}\n" in text and "  - {arm: theirs, task: jump, seed: [1]}\n" in text
    assert "8 missing" in plat("plan", "new.yaml")[1]
