"""Torn files of a home that is at work: leases, submissions, base models, probe tables.

The home has runs that a scheduler did and has, one whose process was killed with its lease, one of a stand-in with its
base model and its probes. After any damage the right results are reached, or it is said what is wrong.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
from pathlib import Path

import pytest
from clusters import PYTHONPATH, QUICK, FakeSlurm
from fresh_plat import fresh_plat
from told import said, same_or_absent, values
from torn_files import damage

from plat.dispatch.driver import sweep
from plat.errors import CheckpointError
from plat.runner.execution import execute
from plat.spec.expansion.experiment import build_run, config_object, load_experiments
from plat.store.coordination import submissions
from plat.store.coordination.submissions import open_submissions
from plat.store.home import Home
from plat.store.run_directory.creation import create
from plat.store.run_directory.state import run_state
from plat_rl.embedded.base_model import base_record
from plat_rl.embedded.base_model.load import build, obtain
from plat_rl.embedded.spec import EmbeddedTrainer

WALKS = """\
title: Random walks
base: {trainer: "plat_toy:Toy", train.iterations: 5}
matrix: {mischief: [none, sigkill_once], seed: [0, 1]}
report: [{builder: metric_table, metrics: [success], rows: mischief, columns: seed}]
"""
PROBES = """\
title: Probes
base: {scale: smoke, task: frozenlake}
matrix: {filter: [none, top_p], seed: [0]}
report: [{builder: collapse}]
"""
TINY = ("scale=smoke", "task=frozenlake")
FILES = ("lease.json", "events.jsonl", "tables.jsonl", "history.jsonl")


def is_new(path):
    """Whether a file is of a kind that the home of `test_torn_files` does not have, or that a run at work needs."""
    return path.name in FILES or "submissions" in path.parts or path.parts[0] == "cache"


def model_of(*overrides):
    return config_object(build_run([*TINY, *overrides]), EmbeddedTrainer()).model


@pytest.fixture(scope="module")
def whole(tmp_path_factory, empty_store):
    """A folder with the home, its files, and a copy of the home that stays as it is; what they need to be used."""
    folder = tmp_path_factory.mktemp("torn")
    slurm = FakeSlurm(folder / "slurm")
    environment = {**slurm.environment, "PYTHONPATH": PYTHONPATH, "PLAT_HOME": str(folder / "home")}
    home = Home(folder / "home").create()
    shutil.copy(empty_store, home.database)
    for name, text in (("walks", WALKS), ("probes", PROBES)):
        (folder / f"{name}.yaml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        done = fresh_plat("sweep", "probes.yaml", "--jobs", "1", cwd=folder, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        fill(home, slurm, load_experiments([folder / "walks.yaml"], [])[0])
    build(model_of("model.base.seed=1"), home.cache / "package")
    shutil.copytree(home.root, folder / "kept")
    yield folder, environment
    slurm.stop()


def fill(home, slurm, experiment):
    """One run done by a scheduler, one that it has, one whose process was killed; the last has not begun."""
    done, waiting, killed, _ = experiment.runs
    on_slurm = {"on": "slurm", "cluster": QUICK, "experiments": [experiment]}
    assert sweep(home, [done], **on_slurm).counts() == {"done": 1}
    slurm.set(slots=0)
    assert sweep(home, [waiting], detach=True, **on_slurm).counts() == {"queued": 1}
    create(home, killed, experiment.name)
    process = multiprocessing.get_context("fork").Process(target=execute, args=(home, killed.id))
    process.start()
    process.join(60)
    assert process.exitcode == -9 and home.run(killed.id).lease.exists()


@pytest.fixture
def restored(whole, monkeypatch):
    """The same home as it was, in use."""
    folder, environment = whole
    restore(folder)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(base_record, "SHIPPED", folder / "home/cache/package")
    monkeypatch.setattr(base_record, "SHIPPED_KEYS", ())
    return folder


def restore(folder):
    """The home as it was. What this process knows of its submissions, by inode, may not outlive the old files."""
    shutil.rmtree(folder / "home")
    shutil.copytree(folder / "kept", folder / "home")
    submissions._KNOWN.clear()


def shown(plat, folder):
    """What plat says and does: by verb, its exit code, its words and what it shows of each run or base model."""
    facts = {name: said(plat, "report", f"{name}.yaml") for name in ("walks", "probes")}
    facts["status"] = said(plat, "status", "walks.yaml")
    facts["bases"] = bases(plat, folder)
    facts["sweep"] = said(plat, "sweep", "walks.yaml", "--jobs", "1")
    for name in ("walks", "probes"):
        code, out, err = said(plat, "runs", f"{name}.yaml", "--json")
        facts[f"runs of {name}"] = (code, values(json.loads(out)["runs"]) if code == 0 else {}, err)
    return facts


def bases(plat, folder):
    """The base models that are listed and those that runs start from: their hashes by where they are."""
    code, out, err = said(plat, "base", "list", "probes.yaml", "--json")
    rows = json.loads(out)["bases"] if out else []
    found = {Path(row["folder"]).name: {**row, "bytes": None} for row in rows}  # blanks and repeated keys say nothing
    cache = folder / "home/cache"
    found["of the runs"] = obtain(model_of(), cache).sha256  # built again where it is damaged
    try:
        found["of the package"] = obtain(model_of("model.base.seed=1"), folder / "home/other").sha256
    except CheckpointError as error:
        code, err = 3, err + error.render()
    return code, found, err


@pytest.fixture(scope="module")
def truth():
    return {}


def is_right(right, key, value, swept):
    """Whether what is shown is right. The run that the scheduler has may be done here only where the sweep names the
    damaged submission: it walks as the killed one of its seed."""
    is_named = "submission.json is damaged" in swept
    return right.get(key) == value or (is_named and key not in right and value in right.values())


def hold(plat, folder, truth, seed):
    if not truth:
        truth.update(shown(plat, folder))
        restore(folder)
    what = damage(folder / "home", seed, is_new)
    now = shown(plat, folder)
    for name, (code, out, err) in now.items():
        right = truth[name]
        if (code, err) != (right[0], right[2]):
            continue  # it is said
        if isinstance(out, dict):
            swept = now["sweep"][2]
            wrong = {key: value for key, value in out.items() if not is_right(right[1], key, value, swept)}
            assert not wrong and (name != "bases" or out.keys() == right[1].keys()), (what, name, wrong)
        elif name in ("walks", "probes"):
            assert same_or_absent(out, right[1]), (what, name, out)


def torn(path):
    path.write_text("{")


def edited_by_hand(path):
    path.write_text(
        json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "checksum"})
    )


@pytest.mark.parametrize("damaged", [torn, edited_by_hand])
def test_a_damaged_submission_is_named(plat, restored, damaged):
    home, runs = Home(restored / "home"), load_experiments([restored / "walks.yaml"], [])[0].runs
    _, _, err = said(plat, "sweep", "walks.yaml", "--jobs", "1")
    assert "submission.json" not in err and run_state(home.run(runs[1].id)).state == "queued"
    restore(restored)
    for submission in open_submissions(home):
        damaged(submission.manifest)
    _, _, err = said(plat, "sweep", "walks.yaml", "--jobs", "1")
    assert any(line.startswith("warning: ") and "submission.json is damaged" in line for line in err.splitlines())
    assert run_state(home.run(runs[1].id)).state == "done"


@pytest.mark.parametrize("seed", range(16))
def test_no_damage_to_a_working_home_is_silent(plat, restored, truth, seed):
    hold(plat, restored, truth, seed)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(16, 170))
def test_no_damage_of_a_hundred_and_seventy_is_silent(plat, restored, truth, seed):
    hold(plat, restored, truth, seed)
