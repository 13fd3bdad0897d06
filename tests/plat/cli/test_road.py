"""The tutorial's road with a script of the user: short, and without words of the paper that plat was written for."""

from __future__ import annotations

import os
import re
from pathlib import Path

from fresh_plat import fresh_plat

SCRIPT = """
import argparse, json
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1, help="learning rate")
parser.add_argument("--hidden", type=int, default=32, help="units")
parser.add_argument("--seed", type=int, default=0, help="of the weights")
given = parser.parse_args()
for epoch in range(1, 6):
    print(json.dumps({"epoch": epoch, "val_loss": given.hidden * given.lr / epoch + given.seed / 100}), flush=True)
"""
FILE = """
title: How many hidden units?
base:
  trainer: script
  script.command: python train.py --lr {lr} --hidden {hidden} --seed {seed}
  lr: 0.1
matrix:
  hidden: [8, 32]
  seed: range(5)
claims:
  - {id: wider, says: More units lose more., check: mean_delta_positive, measure: val_loss, smallest: 0.1}
"""
ROAD = (
    "init train.py",
    "plan d.yaml",
    "sweep d.yaml",
    "report d.yaml",
    "runs d.yaml",
    "status d.yaml",
    "claims d.yaml",
)
FOREIGN = re.compile(
    r"frozenlake|sokoban|\bgrpo\b|\bppo\b|retrieval|validation %|mutual.information|rollout|ragen|success|"
    r"reward.variance|keep.rate|table4|top.p\b|paper's",
    re.IGNORECASE,
)


def test_the_road_is_short_and_speaks_of_the_users_script_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "d.yaml").write_text(FILE)
    environment = {**os.environ, "PLAT_HOME": str(tmp_path / "home"), "COLUMNS": "120"}
    said: dict[str, str] = {}
    for words in (*ROAD, *(f"{words.split()[0]} --help" for words in ROAD)):
        done = fresh_plat(*words.split(), cwd=tmp_path, env=environment)
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
        said[words] = done.stdout + done.stderr
    assert len(said["sweep d.yaml"].splitlines()) <= 25 and len(said["report d.yaml"].splitlines()) <= 15
    page = (tmp_path / "home" / "reports" / "d" / "report.html").read_text()
    said["page"] = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", page, flags=re.DOTALL)
    found = {words: FOREIGN.findall(text) for words, text in said.items()}
    assert not any(found.values()), found
