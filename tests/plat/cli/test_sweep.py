"""`plat plan`, `plat sweep` and `plat run`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

from cli_files import GOOD, GUESSING, results_of


def test_plan_writes_nothing_and_speaks_json(plat, spec, home):
    code, out, _ = plat("plan", spec(GOOD), "matrix.seed=range(3)", "--json")
    assert code == 0
    runs = json.loads(out)["runs"]
    assert [run["axes"]["seed"] for run in runs] == [0, 1, 2]
    assert all(run["state"] == "missing" and len(run["id"]) == 16 and run["id"][:8] in run["name"] for run in runs)
    assert not home.exists()


def test_dry_run_is_plan(plat, spec, home):
    path = spec(GOOD)
    assert plat("sweep", path, "--dry-run")[:2] == plat("plan", path)[:2]
    assert plat("sweep", path, "--dry-run", "-v")[:2] == plat("plan", path, "-v")[:2]
    assert plat("plan", path)[1] != plat("plan", path, "-v")[1]  # -v of one call is not for the next
    assert not home.exists()


def test_a_second_sweep_does_nothing_and_a_removed_run_is_redone_alone(plat, spec, home, toy):
    path = spec(GUESSING)
    code, first, err = plat("sweep", path)
    assert code == 0, err
    assert "climber" in first and "report.html" in first
    done = results_of(home)
    assert len(done) == 2

    code, again, _ = plat("sweep", path)
    assert code == 0 and again.startswith("nothing to do")
    assert results_of(home) == done
    table = first[first.index("A test") :]
    assert again.endswith(table)

    gone, kept = sorted(done)
    shutil.rmtree(home / "runs" / gone[:2] / gone)
    code, out, _ = plat("sweep", path, "-v")
    assert code == 0 and out.count("started") == 1 and gone[:8] in out
    assert results_of(home).keys() == done.keys() and results_of(home)[kept] == done[kept]
    assert table in out


def test_python_without_assertions_does_the_same(spec, home, toy):
    path = spec(GUESSING)
    environment = {**os.environ, "PYTHONOPTIMIZE": "1"}
    for verb in ("plan", "sweep", "report", "status"):
        command = [sys.executable, "-m", "plat", verb, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0 and "climber" in done.stdout and not done.stderr, (verb, done.stderr)
    assert len(results_of(home)) == 2


def test_a_wrong_report_is_refused_before_anything_runs(plat, spec, home, toy):
    code, _, err = plat("sweep", spec(GUESSING + "    nmae: x\n"))
    assert code == 2 and "nmae" in err and "name" in err
    assert not results_of(home)


def test_a_store_that_cannot_be_used_is_refused_before_anything_runs(plat, spec, home, toy, tmp_path):
    (tmp_path / "store.db").write_text("no database")
    code, _, err = plat("sweep", spec(GUESSING), "--store", f"sqlite:///{tmp_path}/store.db")
    assert code == 2 and "store.db" in err
    assert not results_of(home)


def test_one_run_without_a_file(plat, home, toy):
    code, out, err = plat("run", "trainer=toy_hill_climber", "climb.iterations=1", "climb.games=5")
    assert code == 0 and "finished at step 1" in out, err
    assert len(results_of(home)) == 1
    shown = json.loads(plat("run", "trainer=toy_hill_climber", "climb.iterations=1", "climb.games=5", "--json")[1])
    assert shown["result"]["outcome"] == "finished"


def test_a_first_run_says_what_it_does_before_it_starts(plat, home, monkeypatch, toy):
    """Making the store takes seconds, and so does the start of the workers: neither passes in silence."""
    (home / "mlflow.db").unlink()
    arguments = ["run", "trainer=toy_hill_climber", "climb.iterations=1", "climb.games=5", "--json"]
    _, out, err = plat(*arguments)
    lines = [line.split("] ")[-1] for line in err.splitlines()]
    assert lines[:2] == ["making the store, once for this home", "starting workers"] and "started" in lines[2]
    assert json.loads(out)["result"]["outcome"] == "finished"


def test_json_stands_alone_on_stdout(plat, home, toy):
    arguments = ["run", "trainer=toy_hill_climber", "climb.iterations=1", "climb.games=5", "--json"]
    code, out, err = plat(*arguments)
    assert code == 0 and json.loads(out)["result"]["outcome"] == "finished"
    assert "started" in err


def test_a_run_whose_folder_vanishes_during_the_sweep_is_not_called_done(plat, spec, home, toy, monkeypatch):
    from plat.app import importing

    path = spec(GUESSING)
    real, removed = importing.import_all, []

    def remove_one(place, *arguments):
        done = real(place, *arguments)
        if not removed:
            removed.append(place.all_runs()[0].root)
            shutil.rmtree(removed[0])
        return done

    monkeypatch.setattr(importing, "import_all", remove_one)
    code, _, err = plat("sweep", path)
    assert code == 3 and "1 of 2 runs is not done" in err and "removed during the sweep" in err
    code, out, _ = plat("sweep", path, "-v")
    assert code == 0 and not out.startswith("nothing to do") and out.count("started") == 1


def test_ctrl_c_saves_and_the_same_command_goes_on(spec, home, toy):
    path = spec(GUESSING.replace("climb.iterations: 2", "climb.iterations: 100000"))
    command = [sys.executable, "-m", "plat", "sweep", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(home.glob("runs/*/*/attempts/001/checkpoints/*"))) < 2:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert "Traceback" not in out and "the same command resumes" in out
    outcomes = [json.loads(path.read_text())["outcome"] for path in home.glob("runs/*/*/attempts/001/outcome.json")]
    assert outcomes and set(outcomes) == {"interrupted"}


def test_a_store_that_is_down_is_noticed_before_anything_trains(plat, spec, home, toy):
    code, _, err = plat("sweep", spec(GUESSING), "--store", "http://127.0.0.1:9")
    assert code == 2 and "the MLflow server cannot be reached" in err and "127.0.0.1:9" in err
    assert not list(home.glob("runs/**/attempts"))
