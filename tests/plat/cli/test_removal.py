"""`plat rm`, `plat cancel`, `plat gc`: what they ask, refuse and say."""

from __future__ import annotations

import io
import json
import sys

import pytest
from cli_files import GUESSING

from plat.store.disk.durable import to_checked_json
from plat.store.run_directory import lease

TOY = "title: A test\nbase: {{trainer: 'plat_toy:Toy'}}\nmatrix:\n  seed: {}\n"


def test_rm_names_what_it_would_remove_and_needs_a_yes(plat, executed):
    runs = [executed(seed=0), executed(seed=1, mischief="error")]
    code, out, err = plat("rm", "--where", "state=failed")
    assert code == 2 and runs[1].id[:8] in out and runs[0].id[:8] not in out and "--yes" in err
    assert runs[1].root.exists()
    assert plat("rm", "--where", "state=failed", "--yes")[:2] == (0, "1 run removed\n")
    assert runs[0].root.exists() and not runs[1].root.exists()


@pytest.mark.parametrize(("answer", "removed"), [("y", True), ("", False), ("no", False)])
def test_on_a_terminal_it_asks(plat, executed, monkeypatch, answer, removed):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    run = executed()
    monkeypatch.setattr(sys, "stdin", Terminal(answer + "\n"))
    assert plat("rm", run.id)[0] == 0
    assert run.root.exists() != removed


def test_rm_of_everything_must_be_meant(plat, executed):
    run = executed()
    for verb in ("rm", "cancel"):
        code, _, err = plat(verb)
        assert code == 2 and "needs to know which runs" in err and run.root.exists()


def test_a_run_that_goes_on_is_refused(plat, executed):
    run = executed()
    run.result.unlink()
    held = lease.take(run)
    code, _, err = plat("rm", run.id, "--yes")
    assert code == 2 and "is active" in err and "plat cancel" in err and run.root.exists()
    held.release()


def test_a_run_that_another_file_wants_is_refused_unless_forced(plat, executed):
    run = executed()
    meta = json.loads(run.meta.read_text())
    del meta["checksum"]
    run.meta.write_bytes(to_checked_json(meta | {"experiments": ["a", "b"]}))
    code, _, err = plat("rm", run.id, "--yes")
    assert code == 2 and "is also a run of a, b" in err and "--force" in err and run.root.exists()
    assert plat("rm", run.id, "--yes", "--force")[0] == 0 and not run.root.exists()


def test_what_a_person_deleted_in_mlflow_is_said_at_every_sweep_and_the_advice_works(plat, toy, spec, home):
    import shlex
    import subprocess

    from plat.store.mlflow.mlflow_client import mlflow_client

    path = spec(GUESSING)
    assert plat("sweep", path)[0] == 0
    client = mlflow_client(f"sqlite:///{home}/mlflow.db")
    numbers = [experiment.experiment_id for experiment in client.search_experiments()]
    client.delete_run(client.search_runs(numbers, "tags.`plat.kind` = 'run'")[0].info.run_id)
    for _ in range(2):
        code, out, err = plat("sweep", path)
        assert code == 0 and "nothing to do" not in out and "1 run deleted in MLflow" in err
    (command,) = [line.partition("import them again: ")[2] for line in err.splitlines() if "mlflow gc" in line]
    forget, _, then = command.partition(" && ")
    subprocess.run([sys.executable, "-m", *shlex.split(forget)], check=True, capture_output=True)
    assert then == "plat sync" and "1 run brought up to date" in plat("sync")[1]
    assert plat("sweep", path)[::2] == (0, "")


def test_cancel_reaches_a_run_that_goes_on(plat, executed, spec):
    run = executed()
    run.result.unlink()
    held = lease.take(run)
    assert plat("cancel", run.id)[1].startswith("asked to stop: ") and run.cancel.exists()
    held.release()
    assert "none of these runs is active" in plat("cancel", run.id)[1]


def test_cancel_reaches_a_run_that_a_sweep_has_not_started(plat, spec, home):
    from plat.store.coordination import live_sweeps
    from plat.store.home import Home

    path = spec(TOY.format("[0, 1]"))
    runs = json.loads(plat("plan", path, "--json")[1])["runs"]
    with live_sweeps.announced(Home(home).create()) as sweep:
        sweep.give([run["id"] for run in runs])
        code, out, _ = plat("cancel", path, "--where", "seed=1")
        assert (code, out) == (0, f"asked a sweep not to start the run {runs[1]['name']}\n")
        assert sweep.cancelled() == [runs[1]["id"]]


def test_prune_takes_what_the_file_no_longer_wants_and_nothing_else(plat, spec, home):
    import yaml

    from plat.app.loading import load_experiments
    from plat.store.home import Home
    from plat.store.run_directory.creation import create

    path = spec(TOY.format("[0, 1, 2]"), "mine.yaml")
    place = Home(home).create()
    (experiment,) = load_experiments([str(path)])
    runs = [create(place, run, "mine") for run in experiment.runs]
    create(place, experiment.runs[2], "other")
    held = [lease.take(run) for run in runs]
    path.write_text(TOY.format("[0]"))
    assert plat("cancel", path, "--prune")[0] == 0
    assert [run.cancel.exists() for run in runs] == [False, True, False], "the third is wanted by another file"
    for one in held:
        one.release()
    assert yaml.safe_load(runs[1].config.read_text())["seed"] == 1
    code, _, err = plat("cancel", "--prune")
    assert code == 2 and "--prune needs an experiment file" in err


def test_gc_says_what_it_frees(plat, executed):
    executed(iterations=20)
    code, out, _ = plat("gc", "--dry-run")
    assert code == 0 and "checkpoints" in out and "would be freed" in out
    items = json.loads(plat("gc", "--json")[1])["items"]
    assert items and plat("gc")[1] == "there is nothing to remove\n"
