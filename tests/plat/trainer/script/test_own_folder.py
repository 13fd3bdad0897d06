"""`script.own_folder`: each run of a script that writes into its working folder has one of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from plat.store.home import Home

Verb = Callable[..., tuple[int, str, str]]

SCRIPT = """
import os, pathlib, sys
import helper
from torch.utils.tensorboard import SummaryWriter
factor, folder = float(sys.argv[1]), pathlib.Path(sys.argv[3])
data = float(open(sys.argv[2]).read())
with SummaryWriter("runs/mine") as writer:
    for step in range(3): writer.add_scalar("loss", factor * data * helper.ONE, step)
assert (folder / "more.txt").is_file()
open("model.pt", "w").write(sys.argv[1])
"""
FILE = """
title: x
base:
  trainer: script
  script.command: python train.py {x} in/data.txt data --out model.pt
  script.metrics: tensorboard
  script.own_folder: true
matrix: {x: [2, 3], seed: [0]}
"""


def files_of(project: Path) -> dict[str, Path]:
    home = Home.find(None)
    return {run_id: home.run(run_id).root for run_id in home.run_ids()}


def test_runs_write_into_folders_of_their_own_and_read_the_files_that_the_command_names(
    plat: Verb, project: Path
) -> None:
    Path("train.py").write_text(SCRIPT)
    Path("helper.py").write_text("ONE = 1\n")
    for name, text in {"in/data.txt": "10", "data/more.txt": "", "runs/mine/old": "", "model.pt": "old"}.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    Path("mine.yaml").write_text(FILE)
    before = {path for path in project.rglob("*") if "plat-home" not in path.parts}
    code, out, err = plat("sweep", "mine.yaml")
    assert code == 0, out + err
    assert Path("model.pt").read_text() == "old"
    assert {
        path for path in project.rglob("*") if "plat-home" not in path.parts and path.name != "__pycache__"
    } == before
    _, out, _ = plat("runs", "mine.yaml", "--columns", "x,loss")
    assert out.split()[-4:] == ["2", "20.0", "3", "30.0"], out
    models = sorted(path.read_text() for root in files_of(project).values() for path in root.rglob("model.pt"))
    assert models == ["2", "3"]
    assert plat("sweep", "mine.yaml", "script.own_folder=false", "--dry-run")[1].count("2 done") == 1  # the same runs


def test_what_an_output_option_names_is_no_input(plat: Verb, project: Path) -> None:
    Path("train.py").write_text("import json\nopen('model.pt', 'a').write('x')\nprint(json.dumps({'loss': 1}))\n")
    base = "base: {trainer: script, script.command: 'python train.py --save model.pt {x}'}"
    Path("mine.yaml").write_text(f"title: x\n{base}\nmatrix: {{x: [1, 2], seed: [0]}}\n")
    assert plat("sweep", "mine.yaml")[0] == 0
    _, out, _ = plat("plan", "mine.yaml")
    assert "2 done" in out, out


def test_a_file_under_a_name_of_plat_is_refused(plat: Verb, project: Path) -> None:
    Path("train.py").write_text("import json\nprint(json.dumps({'loss': json.load(open('config.json'))['loss']}))\n")
    Path("config.json").write_text('{"loss": 5}')
    base = "base: {trainer: script, script.command: 'python train.py config.json {x}', script.own_folder: true}"
    Path("mine.yaml").write_text(f"title: x\n{base}\nmatrix: {{x: [1], seed: [0]}}\n")
    code, out, err = plat("sweep", "mine.yaml")
    assert code == 3 and "the folder of a run has a config.json of plat" in out + err
