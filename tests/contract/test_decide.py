"""A sweep with `decide` comes to the same decisions on every dispatcher, watched, or submitted look by look."""

from __future__ import annotations

import time

import pytest

import plat

SCRIPT = """
import argparse, json, random
options = argparse.ArgumentParser()
options.add_argument("--arm")
options.add_argument("--seed", type=int)
asked = options.parse_args()
gain = {"base": 0.0, "better": 3.0, "wide": 0.3}[asked.arm]
spread = 3.0 if asked.arm == "wide" else 0.2
noise = random.Random(f"{asked.seed} {asked.arm}").uniform(-1, 1)
print(json.dumps({"step": 1, "score": random.Random(asked.seed).uniform(0, 5) + gain + spread * noise}))
"""
FILE = """
title: Arms of a script
base: {trainer: script, script.command: "python train.py --arm {arm} --seed {seed}"}
matrix: {arm: [base, better, wide], seed: [0]}
decide: {most: 12}
claims:
  - {id: better, says: Better beats base., check: mean_delta_positive, pair: arm, baseline: base, treatment: better,
     measure: {metric: score}, smallest: 1}
  - {id: wide, says: Wide beats base., check: mean_delta_positive, pair: arm, baseline: base, treatment: wide,
     measure: {metric: score}, smallest: 0.5}
"""
RUNS = {"base": 12, "better": 8, "wide": 12}  # better is shown at eight pairs, wide is open at twelve
PATIENCE = 300  # seconds


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "arms.yaml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return "arms.yaml"


def sweep(home, file, place, **more):
    options = {**place.options, **more}
    return plat.sweep(file, options.pop("cluster", ()), home=str(home.root), **options)


def arms_of(home, file):
    """How many runs of each arm are done."""
    done = [entry for entry in plat.status(file, home=str(home.root)) if str(entry.state.state) == "done"]
    arms = [entry.axes["arm"] for entry in done]
    return {arm: arms.count(arm) for arm in dict.fromkeys(arms)}


def verdicts(home, file):
    judged = plat.claims(file, home=str(home.root))
    return dict(zip(judged["id"], judged["verdict"], strict=True)), "".join(judged["why"])


def test_looks_follow_each_other_until_all_is_decided(home, file, place):
    assert sweep(home, file, place, wait=True).exit_code == 0
    assert arms_of(home, file) == RUNS
    words, why = verdicts(home, file)
    assert words == {"better": "shown", "wide": "open"} and "at 8 pairs" in why and "at 12 pairs" in why


def test_a_command_submits_a_look_and_leaves(home, file, place):
    if place.name == "local":
        pytest.skip("nothing is submitted")
    deadline = time.monotonic() + PATIENCE
    assert sweep(home, file, place, wait=False).exit_code == 0
    while arms_of(home, file) != RUNS and time.monotonic() < deadline:
        time.sleep(1)
        assert sum(arms_of(home, file).values()) <= sum(RUNS.values())
        assert sweep(home, file, place, wait=False).exit_code == 0
    assert arms_of(home, file) == RUNS
    assert verdicts(home, file)[0] == {"better": "shown", "wide": "open"}
