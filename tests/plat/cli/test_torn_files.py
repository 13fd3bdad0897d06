"""Torn, cut, exchanged and edited files of a home, whichever they are: no traceback, and no other result in silence."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from fresh_plat import fresh_plat
from search_files import TOY_SEARCH
from told import said, same_or_absent, values
from torn_files import damage

TOY = Path(__file__).parents[2] / "toy"
WALKS = """\
title: Random walks
base: {trainer: "plat_toy:Toy"}
matrix: {train.iterations: [4, 5], seed: [0, 1]}
report: [{builder: metric_table, metrics: [success], rows: train.iterations, columns: seed}]
"""
SEARCH = TOY_SEARCH + "sampler: random\ntrials: 3\nseeds: [0]\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory, empty_store):
    """A folder with a home of a sweep and a search, its files, and a copy of the home that stays as it is."""
    folder = tmp_path_factory.mktemp("torn")
    (folder / "walks.yaml").write_text(WALKS)
    (folder / "search.yaml").write_text(SEARCH)
    (folder / "home").mkdir()
    shutil.copy(empty_store, folder / "home" / "mlflow.db")
    environment = {**os.environ, "PYTHONPATH": str(TOY), "PLAT_HOME": str(folder / "home"), "PLAT_ALLOW_IMPORT": "1"}
    environment.pop("MLFLOW_TRACKING_URI", None)
    for verb, file in (("sweep", "walks.yaml"), ("tune", "search.yaml")):
        done = fresh_plat(verb, file, "--jobs", "1", cwd=folder, env=environment, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    shutil.copytree(folder / "home", folder / "kept")
    return folder


@pytest.fixture
def restored(whole, monkeypatch):
    """The same folder with its home as it was."""
    shutil.rmtree(whole / "home")
    shutil.copytree(whole / "kept", whole / "home")
    monkeypatch.setenv("PLAT_HOME", str(whole / "home"))
    monkeypatch.chdir(whole)
    return whole


def shown(plat):
    """What plat says of the results: by verb, its exit code, its words and what it shows of each run."""
    facts = {"report": said(plat, "report", "walks.yaml"), "tune": said(plat, "tune", "search.yaml", "--jobs", "1")}
    code, out, err = said(plat, "runs", "walks.yaml", "--json")
    facts["runs"] = (code, json.loads(out)["runs"] if code == 0 else [], err)
    return facts


@pytest.fixture(scope="module")
def truth():
    return {}


def hold(plat, restored, truth, seed):
    if not truth:
        truth.update(shown(plat))
        assert all(code == 0 for code, _, _ in truth.values())
        shutil.rmtree(restored / "home")
        shutil.copytree(restored / "kept", restored / "home")
    what = damage(restored / "home", seed)
    now = shown(plat)
    for name, (code, out, err) in now.items():
        if code != 0 or err != truth[name][2]:
            continue  # it is said
        if name == "runs":
            wrong = {run: value for run, value in values(out).items() if values(truth[name][1])[run] != value}
            assert not wrong, (what, name, wrong)
        else:
            assert same_or_absent(out, truth[name][1]), (what, name, out)


@pytest.mark.parametrize("seed", range(40))
def test_no_damage_is_silent(plat, restored, truth, seed):
    hold(plat, restored, truth, seed)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(40, 330))
def test_no_damage_of_three_hundred_is_silent(plat, restored, truth, seed):
    hold(plat, restored, truth, seed)
