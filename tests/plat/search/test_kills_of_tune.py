"""`plat tune` killed at any step, then given again: the same trials, winner and runs as an undisturbed one.

Two rounds in the ordinary suite; more with `pytest -m chaos`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from search_files import TOY_SEARCH
from store_dump import dump
from toy_runs import comparable, no_step_twice

from plat.store.home import Home

pytestmark = pytest.mark.slow
TOY = Path(__file__).parents[2] / "toy"
TEXT = TOY_SEARCH + "sampler: tpe\ntrials: 4\nseeds: [0, 1]\nconfirm: [7]\n"


def tune(folder, at=0, number=signal.SIGKILL):
    """Give the command, and end it before a step; (exit code, stdout, stderr)."""
    home = folder / "home"
    command = [sys.executable, str(TOY / "step_counter.py"), str(home), str(int(number)), str(at)]
    command += ["tune", str(folder.parent / "toy.yaml"), "--home", str(home), "--jobs", "1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PLAT_", "MLFLOW_"))}
    environment |= {"PYTHONPATH": str(TOY), "PLAT_ALLOW_IMPORT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=folder)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def made(folder, empty_store):
    (folder / "home").mkdir(parents=True)
    shutil.copy(empty_store, folder / "home/mlflow.db")
    return folder


def content(folder):
    """The trials, the runs and the store of a search, without times and attempts."""
    import optuna

    home = Home(folder / "home")
    (study,) = optuna.get_all_study_summaries(f"sqlite:///{home.studies}")
    trials = optuna.load_study(study_name=study.study_name, storage=f"sqlite:///{home.studies}").get_trials()
    assert all(no_step_twice(run) for run in home.all_runs())
    stored = dump(home.store_uri())
    return {
        "trials": [(trial.number, trial.state, trial.params, trial.values, trial.user_attrs) for trial in trials],
        "runs": {run.id: comparable(run) for run in home.all_runs()},
        "stored": sorted(str(name) for name in stored),
    }


def table(output):
    """What is said of the trials and the winner."""
    return output[output.index("The winner on fresh seeds") : output.index("report:")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, empty_store):
    folder = tmp_path_factory.mktemp("tune")
    (folder / "toy.yaml").write_text(TEXT)
    code, out, err = tune(made(folder / "undisturbed", empty_store))
    assert code == 0, out + err
    return folder, content(folder / "undisturbed"), table(out), int(re.findall(r"(\d+) steps", err)[-1])


def play(undisturbed, empty_store, share, number):
    folder, wanted, said, steps = undisturbed
    here = made(folder / f"{share}-{number}", empty_store)
    for again in range(2):  # what goes on is killed, too
        code, out, err = tune(here, 1 + int((steps - 1) * (share if again == 0 else share / 2)), number)
        assert code in (-number, 130, 143) or again, (code, out, err)  # the second may end before that step
    code, out, err = tune(here)
    assert code == 0, out + err
    actual = content(here)
    assert actual["trials"] == wanted["trials"] and actual["runs"] == wanted["runs"]
    assert actual["stored"] == wanted["stored"] and table(out) == said


@pytest.mark.parametrize(
    ("share", "number"), [(0.35, signal.SIGKILL), pytest.param(0.6, signal.SIGTERM, marks=pytest.mark.long)]
)
def test_a_tune_that_was_ended_anywhere_ends_as_an_undisturbed_one(undisturbed, empty_store, share, number):
    play(undisturbed, empty_store, share, number)


@pytest.mark.chaos
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("share", [round(0.02 + 0.06 * point, 2) for point in range(17)])
def test_a_tune_that_was_ended_at_many_steps(undisturbed, empty_store, share, number):
    play(undisturbed, empty_store, share, number)
