"""`plat tune` and `plat plan` of a search file, as typed; the study in Optuna's own tools; trials as runs in MLflow."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys

import pytest
from search_files import TOY_SEARCH

from plat.runner.execution import execute
from plat.search.search_file import read_searches
from plat.search.study import open_study
from plat.search.trial_source import TrialSource
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import end_attempt, new_attempt
from plat.words.outcomes import INTERRUPTED, PRUNED

TEXT = (
    TOY_SEARCH
    + """
pruner: [none, {name: median, startup: 1}]
trials: 2
seeds: [0]
confirm: [10]
"""
)
OPTUNA = "import sys; from optuna.cli import main; sys.exit(main())"


@pytest.fixture
def file(write, home, empty_store, monkeypatch):
    shutil.copy(empty_store, home.database)
    monkeypatch.setenv("PLAT_HOME", str(home.root))
    return write(TEXT)


def test_a_search_is_planned_done_and_reported(plat, file, tmp_path):
    home = tmp_path / "home"
    code, out, _ = plat("plan", file)
    assert code == 0 and "[toy.none]" in out and "[toy.median]" in out and "not begun" in out
    assert not (home / "studies.db").exists()
    code, out, err = plat("tune", file, "--jobs", 1)
    assert code == 0, out + err
    assert "The winner on fresh seeds" in out and "best of the search" in out
    assert "2 of 2 trials are over; best so far: trial " in err
    assert {"report.html", "trials.csv", "search.svg"} <= {path.name for path in (home / "reports/toy.none").iterdir()}
    with sqlite3.connect(home / "mlflow.db") as connection:
        rows = connection.execute("select value from tags where key = 'plat.study.toy.none'").fetchall()
    connection.close()
    assert sorted(value for (value,) in rows) == ["0", "1", "confirm"]
    command = [sys.executable, "-c", OPTUNA, "trials", "--storage", f"sqlite:///{home}/studies.db"]
    listed = subprocess.run([*command, "--study-name", "toy.none"], capture_output=True, text=True, timeout=120)
    assert listed.returncode == 0 and listed.stdout.count("COMPLETE") == 2, listed.stdout + listed.stderr
    assert "so far: 2 complete" in plat("plan", file)[1]
    results = sorted(home.glob("runs/*/*/result.json"))
    assert plat("tune", file)[0] == 0 and sorted(home.glob("runs/*/*/result.json")) == results


def test_a_run_of_a_trial_that_lost_its_result_is_done_again(plat, file, home):
    assert plat("tune", file, "--jobs", 1)[0] == 0
    table = plat("tune", file)[1].split("report:")[0]
    for path in home.root.glob("runs/*/*/result.json"):
        path.write_bytes(path.read_bytes()[:50])
    code, out, err = plat("tune", file, "--jobs", 1)
    assert code == 0 and table in out and "—" not in table, out + err


def test_a_run_of_the_winner_that_is_gone_is_named(plat, file, home):
    assert plat("tune", file, "--jobs", 1, "pruner=none", "confirm=[]")[0] == 0
    for path in home.root.glob("runs/*/*"):
        shutil.rmtree(path)
    code, _, err = plat("tune", file, "--jobs", 1, "pruner=none", "confirm=[]")
    assert code == 3 and "is left out of the winner's values: its directory has no result.json" in err, err


def test_wrong_command_lines_are_told_so(plat, file):
    for arguments, words in ((["tune"], "takes one search file"), (["tune", file, "spase=1"], "unknown key 'spase'")):
        code, _, err = plat(*arguments)
        assert code == 2 and words in err and "fix:" in err


@pytest.mark.parametrize("verb", ["tune", "plan"])
def test_a_trainer_is_asked_about_every_corner_before_anything_runs(plat, write, verb, tmp_path):
    """One value of one parameter is enough for the trainer to refuse the search."""
    text = TEXT.replace("  at: {int: [10, 50]}", "  mischief: [none, unfit]")
    place = tmp_path / "elsewhere"
    code, _, err = plat(verb, write(text), "--home", place)
    assert code == 2 and "the toy cannot do this" in err and "mischief=none" in err
    assert not place.exists()


def begun(home, file, number):
    """The first runs of the first search of a file, their directories made; nobody works on them."""
    (search, *_) = read_searches(file)
    with open_study(home, search) as study:
        return TrialSource(home, search, study, number).next()


def test_the_way_on_with_runs_of_a_search_is_plat_tune(plat, file, home):
    first, second = begun(home, file, 2)
    new_attempt(home.run(first.id), 1)
    for named in ([], [file]):
        out = " ".join(plat("status", *named)[1].split())
        assert "1 interrupted" in out and "1 missing" in out and "plat sweep" not in out, out
        assert (
            "the next `plat tune FILE` starts it anew" in out and out.count("the next `plat tune FILE` starts it") == 2
        )
    assert "`plat tune FILE` resumes" in " ".join(plat("why", first.id)[1].split())
    whys = [run["why"] for run in json.loads(plat("status", "--json")[1])["runs"]]
    assert all("plat tune" in why for why in whys) and second.id != first.id
    assert "the next `plat tune FILE` resumes" in " ".join(plat("retry", file)[1].split())


def test_failed_runs_of_a_search_are_tried_again_and_exported(plat, file, home, tmp_path, empty_store):
    file.write_text(TEXT.replace("plat_toy:Toy", 'plat_toy:Toy", mischief: "error_once').replace("[10, 50]", "[1, 2]"))
    assert plat("tune", file, "--jobs", 1)[0] == 3
    shown = " ".join(plat("status", file)[1].split())
    assert "2 failed: failed:error" in shown and "`plat retry` tries again" in shown, shown
    code, out, err = plat("export", file, "--out", tmp_path / "failed")
    assert code == 0 and "and 2 failed (without their history)" in out, out + err
    code, out, err = plat("retry", file)
    runs = [run["id"] for run in json.loads(plat("runs", file, "--json")[1])["runs"]]
    assert code == 0 and len(runs) >= 2 and all(home.run(run_id).result.exists() for run_id in runs)
    assert f"0 runs brought up to date, {len(runs)} up to date already" in " ".join(plat("sync", file)[1].split())
    assert plat("retry", file)[1] == "no failed run to try again\n"
    code, out, _ = plat("export", file, "--out", tmp_path / "bundle")
    assert (code, out.split()) == (0, f"{len(runs)} runs exported to {tmp_path / 'bundle'}".split())
    assert (tmp_path / "bundle/experiments/toy.yaml").read_text() == file.read_text()
    (tmp_path / "there").mkdir()
    shutil.copy(empty_store, tmp_path / "there/mlflow.db")
    there = ("--home", tmp_path / "there")
    assert plat("import", tmp_path / "bundle", *there)[0] == 0
    assert f"toy.none: {len(runs)} done of {len(runs)}" in plat("status", file, *there)[1]


def test_a_retry_of_a_search_that_was_interrupted_goes_on_with_the_next_one(plat, file, home):
    (run, *_) = begun(home, file, 1)
    for number, outcome in ((1, "failed:error"), (2, INTERRUPTED)):
        end_attempt(home.run(run.id), new_attempt(home.run(run.id), number), outcome, "a test")
    assert plat("retry", file)[0] == 0 and home.run(run.id).result.exists()


def test_runs_that_a_search_gave_up_are_not_missing_from_its_bundle(plat, file, home, tmp_path):
    done, given_up = begun(home, file, 2)
    execute(home, done.id)
    end_attempt(home.run(given_up.id), new_attempt(home.run(given_up.id), 1), PRUNED, "a test")
    assert plat("export", file, "--out", tmp_path / "bundle")[::2] == (0, "")
    assert "a search pruned the run" in plat("status", file)[1]
    end_attempt(home.run(given_up.id), new_attempt(home.run(given_up.id), 2), INTERRUPTED, "a test")
    code, _, err = plat("export", file, "--out", tmp_path / "other")
    assert code == 3 and "interrupted" in err


def test_verbs_about_runs_take_a_search_file_for_its_runs_so_far(plat, file, home):
    assert plat("status", file)[1].splitlines() == ["toy.none: no runs", "toy.median: no runs"]
    searches = read_searches(file)
    with open_study(home, searches[0]) as study:
        source = TrialSource(home, searches[0], study, 1)
        runs = source.next()
        assert len(runs) == 1
    assert "so far: 1 unfinished" in plat("plan", file)[1], "nobody works on it"
    execute(home, runs[0].id)
    assert "toy.none: 1 done of 1" in plat("status", file)[1]
    assert json.loads(plat("runs", file, "--json")[1])["runs"][0]["id"] == runs[0].id
    assert "1 done" in plat("watch", file)[1] and "at" in plat("runs", file)[1]
    home.run(runs[0].id).result.unlink()
    held = lease.take(home.run(runs[0].id))
    assert plat("cancel", file)[1] == f"asked to stop: {runs[0].name}\n"
    held.release()
    for verb in ("report", "claims", "sweep"):
        code, _, err = plat(verb, file)
        assert code == 2 and f"plat tune {file}" in err
    code, _, err = plat("status", file, "spase=1")
    assert code == 2 and "spase" in err


IDLE = """
title: A search over nothing
base: {scale: smoke, task: frozenlake, filter: none, algorithm: grpo, train.critic_lr: 0.1}
space: {filter.eps: [0.0, 0.1], train.lr: [0.001, 0.01]}
objectives: [{maximize: success, of: best}]
trials: 2
seeds: [0]
"""


def test_what_cannot_make_trials_differ_is_named(plat, write, home, monkeypatch):
    monkeypatch.setenv("PLAT_HOME", str(home.root))
    file = write(IDLE)
    code, _, err = plat("plan", file, "train.critic_warmup=1")
    assert code == 0 and "cannot differ in filter.eps: there is no filter" in err and "train.lr" not in err
    assert "warning: train.critic_warmup has no effect" in err
    assert f"{file}:3:" in plat("plan", file)[2] and "train.critic_lr has no effect" in plat("plan", file)[2]
    code, _, err = plat("plan", write(IDLE.replace("filter: none", "filter: top_p")))
    assert code == 0 and "filter.eps" not in err
