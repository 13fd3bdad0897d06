"""Torn, cut, exchanged and edited files of a home, whichever they are: no traceback, and no other result in silence."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from search_files import TOY_SEARCH
from torn_files import damage

TOY = Path(__file__).parents[2] / "toy"
WALKS = """\
title: Random walks
base: {trainer: "plat_toy:SPEC"}
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
        command = [sys.executable, "-m", "plat", verb, file, "--jobs", "1"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
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


def said(plat, *command):
    """(exit code, what is shown, what else is said); no mistake of plat."""
    code, out, err = plat(*command)
    assert code in (0, 2, 3) and "a mistake in plat" not in out + err, (command, out + err)
    return code, out, err


def shown(plat):
    """What plat says of the results: by verb, its exit code, its words and what it shows of each run."""
    facts = {"report": said(plat, "report", "walks.yaml"), "tune": said(plat, "tune", "search.yaml", "--jobs", "1")}
    code, out, err = said(plat, "runs", "walks.yaml", "--json")
    facts["runs"] = (code, json.loads(out)["runs"] if code == 0 else [], err)
    return facts


def same_or_absent(out, whole):
    """Whether every number shown is the right one, or a dash; or a warning says why not."""
    cells, right = (
        [word for word in text.split() if word[0] == "—" or re.search(r"\d", word)] for text in (out, whole)
    )
    absent = len(cells) == len(right) and all(
        cell[0] == "—" or cell == other for cell, other in zip(cells, right, strict=True)
    )
    return out == whole or absent or out.count("warning") > whole.count("warning")


def values(rows):
    """Run -> what its result says; nothing of a run that is not shown as done."""
    keys = ("outcome", "success", "best", "iteration")
    return {row["id"]: [row[key] for key in keys] for row in rows if row["state"] == "done"}


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


@pytest.mark.parametrize("seed", range(60))
def test_no_damage_is_silent(plat, restored, truth, seed):
    hold(plat, restored, truth, seed)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(60, 500))
def test_no_damage_of_five_hundred_is_silent(plat, restored, truth, seed):
    hold(plat, restored, truth, seed)
