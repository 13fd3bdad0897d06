"""`plat eval`, `plat ui` and `plat doctor`."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_files import results_of

from plat.cli.verbs import eval
from plat.errors import PluginError
from plat.store.home import Home
from plat.store.run_directory import checkpoint
from plat.trainer.api import State


def test_ui_listens_on_this_machine_alone(plat, home, empty_store, monkeypatch):
    home.mkdir()
    shutil.copy(empty_store, home / "mlflow.db")
    monkeypatch.setenv("MLFLOW_HOST", "0.0.0.0")
    calls = []
    monkeypatch.setattr("os.execve", lambda *call: calls.append(call) or sys.exit(0))
    plat("ui", "--port", "5931")
    ((_, command, _),) = calls
    assert command[command.index("--host") + 1] == "127.0.0.1"


def test_the_command_of_ui_which_every_user_can_see_has_no_password(plat, home, monkeypatch):
    (home / "runs").mkdir(parents=True)
    calls = []
    monkeypatch.setattr("os.execve", lambda *call: calls.append(call) or sys.exit(0))
    plat("ui", "--port", "5932", "--store", "postgresql://me:s3cret@127.0.0.1:9/db")
    ((_, command, environment),) = calls
    assert "s3cret" not in " ".join(command)
    assert environment["MLFLOW_BACKEND_STORE_URI"] == "postgresql://me:s3cret@127.0.0.1:9/db"


@pytest.fixture
def peaks(home) -> tuple[Home, str, Path]:
    """A home with a run whose peak was at step 2, and whose newest checkpoint is of step 4."""
    run = Home(home).run("00ff00ff00ff00ff")
    folder = run.attempt(1).checkpoints
    folder.mkdir(parents=True)
    run.meta.write_text('{"name": "a-run", "trainer": "embedded"}')
    for step, peak_step in ((1, 1), (2, 2), (3, 2), (4, 2)):
        notes = checkpoint.Notes(events=step, peak_step=peak_step)
        checkpoint.save_checkpoint(folder, step, State({"a": np.zeros(2)}, {}), step == peak_step, notes)
    return Home(home), run.id, folder


def test_eval_takes_the_checkpoint_at_the_peak(peaks):
    home, run, folder = peaks
    assert eval._find(home, run, peak=True)[1] == folder / "step-000002"
    assert eval._find(home, run, peak=False)[1] == folder / "step-000004"


def test_what_libraries_print_is_no_result(capfd):
    with eval._what_is_said_kept_back("mine"):
        print("a banner")
        os.write(2, b"a warning\n")
    assert capfd.readouterr() == ("", "")
    with pytest.raises(PluginError, match="the evaluation of the trainer 'mine' failed: OSError: no room"):
        with eval._what_is_said_kept_back("mine"):
            print("a banner")
            raise OSError("no room")
    out, err = capfd.readouterr()
    assert out == "" and "a banner" in err


@pytest.mark.parametrize(
    ("step", "file", "what"),
    [
        (2, "tensors.safetensors", "at the peak (step 2) is missing or damaged"),
        (2, "meta.json", "at the peak (step 2) is missing or damaged"),
        (4, "meta.json", "says where the peak was, is damaged"),
    ],
)
def test_eval_lets_no_other_checkpoint_pass_for_the_peak(plat, peaks, step, file, what):
    home, run, folder = peaks
    (folder / f"step-{step:06d}" / file).write_bytes(b"x")
    code, out, err = plat("eval", run)
    assert code != 0 and what in err and "--last" in err and not out
    assert eval._find(home, run, peak=False)[1] == folder / f"step-{4 if step == 2 else 3:06d}"


def test_eval_needs_no_tensors_of_the_newest_checkpoint_to_find_the_peak(peaks):
    home, run, folder = peaks
    (folder / "step-000004" / "tensors.safetensors").write_bytes(b"x")
    assert eval._find(home, run, peak=True)[1] == folder / "step-000002"


def test_eval_of_a_trainer_without_one(plat, home, toy):
    plat("run", "trainer=toy_hill_climber", "climb.iterations=1", "climb.games=5")
    code, _, err = plat("eval", next(iter(results_of(home))))
    assert code == 2 and "no evaluation" in err


def test_doctor_looks_at_everything_and_creates_nothing(plat, home):
    code, out, _ = plat("doctor", "--json")
    checks = {check["name"]: check["level"] for check in json.loads(out)["checks"]}
    machine = {"python", "packages", "plugins", "tasks", "sandbox", "torch", "cores"}
    assert set(checks) == {*machine, "home", "disk", "store"}
    assert code == 0, out
    assert not home.exists()
    home.mkdir()
    assert plat("doctor")[0] == 0 and not list(home.iterdir())  # a folder that is no home stays as it is


def test_doctor_names_the_plugins(plat):
    """Somebody who has installed a package of their own sees that it was met."""
    checks = json.loads(plat("doctor", "--json")[1])["checks"]
    plugins = next(check["says"] for check in checks if check["name"] == "plugins")
    for kind, names in {
        "trainers": "embedded",
        "environments": "countdown, deepcoder, frozenlake",
        "claims": "increasing",
    }.items():
        assert re.search(rf"\d+ {kind} \([^)]*{names}", plugins), plugins


def test_doctor_fails_on_a_broken_store(plat, home):
    home.mkdir()
    (home / "mlflow.db").write_text("this is no database")
    code, out, _ = plat("doctor")
    assert code == 2 and "error    store" in out
