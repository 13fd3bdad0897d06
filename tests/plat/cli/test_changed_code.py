"""A trainer of one's own is a script: its runs are those of its code, and `plat plan` names the file that changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from fresh_plat import fresh_plat

TRAINER = """
from dataclasses import dataclass
from plat.trainer.api import Outcome, Trainer
import helper

@dataclass
class Config:
    trainer: str = "own_trainer:Own"
    seed: int = 0
    wait: str = ""

class Own(Trainer):
    name, version, config_type = "own", "1.0", Config

    def train(self, config, io):
        if config.wait:
            open(config.wait, "a").write("x")
        io.log(1, {"val/success": helper.value(config.seed)})
        return Outcome("finished")
"""
HELPER = "def value(seed):\n    return seed / 4\n"
FILE = "title: Own\nbase: {trainer: 'own_trainer:Own'}\nmatrix: {seed: [0, 1]}\n"


@pytest.fixture
def plat(tmp_path):
    """Run `plat` beside the script, in a process; `of` runs Python there."""
    for name, text in {"own_trainer.py": TRAINER, "helper.py": HELPER, "own.yaml": FILE}.items():
        (tmp_path / name).write_text(text)

    def run(*arguments, of=("-m", "plat")):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PLAT_ALLOW_IMPORT": "1", "COLUMNS": "400"}
        if of == ("-m", "plat"):
            return fresh_plat(*arguments, cwd=tmp_path, env=environment)
        command = [sys.executable, *of, *map(str, arguments)]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    return run


def test_runs_of_another_version_of_the_trainer_are_counted_and_not_shown(plat, tmp_path):
    assert plat("sweep", "own.yaml").returncode == 0
    assert "are here from" not in plat("report", "own.yaml").stdout
    (tmp_path / "own_trainer.py").write_text(TRAINER.replace('"1.0"', '"1.1"'))
    report = plat("report", "own.yaml", "--out", "page")
    assert "2 runs of these configs are here from own_trainer:Own 1.0, but 1.1 is installed" in report.stdout
    assert "are here from own_trainer:Own 1.0" in (tmp_path / "page" / "report.html").read_text()


def test_a_changed_file_makes_new_runs_and_is_named_with_the_way_to_keep_the_earlier(plat, tmp_path):
    done = plat("sweep", "own.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing to do" in plat("plan", "own.yaml").stdout
    run = next((tmp_path / "home" / "runs").glob("*/*")).name
    assert "(helper.py, own_trainer.py)" in plat("why", run).stdout
    (tmp_path / "helper.py").write_text(HELPER.replace("/ 4", "/ 2"))
    planned = plat("plan", "own.yaml")
    assert "2 of 2 runs to do" in planned.stdout
    assert planned.stderr.startswith(
        "note: helper.py changed since 2 runs of these configs were made, so they are made"
    )
    code = planned.stderr.partition('code="')[2].partition('"')[0]
    assert len(code) == 16

    named = TRAINER.replace('1.0", Config', f'1.0", Config\n    code = "{code}"')
    (tmp_path / "own_trainer.py").write_text(named)
    kept = plat("plan", "own.yaml")
    assert "Nothing to do" in kept.stdout
    assert kept.stderr == (
        "note: helper.py, own_trainer.py changed since 2 runs were made; "
        "the results stay valid, because the trainer names the code and this name is unchanged\n"
    )
    (tmp_path / "own_trainer.py").write_text(named.replace('"1.0"', '"1.1"'))
    raised = plat("plan", "own.yaml")
    assert "2 of 2 runs to do" in raised.stdout and "helper.py, own_trainer.py changed" in raised.stderr

    (tmp_path / "own_trainer.py").write_text(TRAINER)
    (tmp_path / "helper.py").write_text(HELPER)
    assert "Nothing to do" in plat("plan", "own.yaml").stdout, "the code is as it was"

    (tmp_path / "helper.py").write_text(HELPER.replace("/ 4", "/ 8"))
    single = plat("run", "trainer=own_trainer:Own", "seed=0")
    assert single.returncode == 0 and "note: helper.py changed since 1 run of these configs" in single.stderr


def test_a_run_is_not_made_with_other_code_than_its_id_names(plat, tmp_path):
    """The files change between the plan and the run, as they may while a run waits in a queue."""
    from plat.store.home import Home

    assert plat("sweep", "own.yaml").returncode == 0
    home = Home(tmp_path / "home")
    run = next(iter(home.all_runs()))
    run.result.unlink()
    (tmp_path / "helper.py").write_text(HELPER.replace("/ 4", "/ 2"))
    doing = "import pathlib, sys; from plat.runner.execution import execute; from plat.store.home import Home\n"
    doing += "print(execute(Home(pathlib.Path(sys.argv[1])), sys.argv[2]))"
    assert plat(home.root, run.id, of=("-c", doing)).stdout.strip() == "failed:error"
    assert not run.result.exists()
    ended = json.loads(run.attempts()[-1].outcome.read_text())
    assert ended["reason"].startswith("helper.py changed since this run was planned") and "new runs" in ended["reason"]
    (tmp_path / "helper.py").write_text(HELPER)
    assert plat("retry", run.id).returncode == 0 and run.result.exists()


def test_runs_of_one_config_and_other_code_say_what_makes_their_ids_differ(plat, tmp_path):
    (tmp_path / "own.yaml").write_text(FILE.replace("[0, 1]", "[0]"))
    assert plat("sweep", "own.yaml").returncode == 0
    (tmp_path / "helper.py").write_text(HELPER.replace("/ 4", "/ 2"))
    assert plat("sweep", "own.yaml").returncode == 0
    run = next((tmp_path / "home" / "runs").glob("*/*")).name
    said = plat("why", run).stdout
    assert "has the same config, but its id differs because of 1 other fact:" in said and "plugins.trainer" in said


SCRIPT = "import json, sys\nprint(json.dumps({'step': 1, 'loss': float(sys.argv[1])}))\n"
STUDY = """
title: Study
base: {trainer: script, script.command: "python train.py {x}"}
matrix: {x: [1.0, 2.0], seed: [0, 1]}
claims: [{id: more, says: more is more, check: mean_delta_positive, pair: x, measure: {metric: loss}, smallest: 0.1}]
"""


def test_a_report_after_an_edit_keeps_the_last_one_and_can_show_the_runs_of_the_earlier_code(plat, tmp_path):
    for name, text in {"train.py": SCRIPT, "study.yaml": STUDY}.items():
        (tmp_path / name).write_text(text)
    assert plat("sweep", "study.yaml").returncode == 0
    folder = tmp_path / "home" / "reports" / "study"
    before, judged = {path.name: path.read_bytes() for path in folder.iterdir()}, plat("claims", "study.yaml")
    (tmp_path / "train.py").write_text(SCRIPT + "print('an edit')\n")

    after = plat("report", "study.yaml")
    assert after.returncode == 3
    assert "train.py changed since 4 runs of these configs were made" in after.stdout
    assert "--code-of-runs` reports the runs of the earlier code" in after.stdout
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before

    claims = plat("claims", "study.yaml")
    assert claims.returncode == 3 and "note: train.py changed since 4 runs" in claims.stderr

    earlier = plat("report", "study.yaml", "--code-of-runs")
    assert earlier.returncode == 0 and "4 runs are of earlier code, 0 of today's or missing" in earlier.stderr
    claims = plat("claims", "study.yaml", "--code-of-runs")
    assert (claims.returncode, claims.stdout) == (0, judged.stdout)

    assert plat("sweep", "study.yaml", "--first", "1").returncode == 0
    kept = plat("report", "study.yaml")  # 1 of 4 is done with today's code
    assert kept.returncode == 3 and "nothing was written: more runs are done with the earlier code" in kept.stdout
    assert plat("sweep", "study.yaml").returncode == 0
    assert "nothing was written" not in plat("report", "study.yaml").stdout


def test_the_same_command_in_another_folder_is_no_earlier_code(plat, tmp_path):
    for name, metric in (("a", "loss"), ("b", "score")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(SCRIPT.replace("'loss'", f"'{metric}'"))
        (tmp_path / name / f"of_{name}.yaml").write_text(STUDY.replace("metric: loss", f"metric: {metric}"))
    assert plat("sweep", "a/of_a.yaml").returncode == 0
    report = plat("report", "b/of_b.yaml", "--code-of-runs")
    assert "changed since" not in report.stdout and "earlier code" not in report.stderr and "loss" not in report.stdout
    assert "changed since" not in plat("plan", "b/of_b.yaml").stderr
