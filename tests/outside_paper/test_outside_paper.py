"""A second paper lives outside the repository's packages and needs nothing but YAML and entry points."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SPEC = HERE / "experiments" / "guessing.yaml"


@pytest.fixture
def plat(tmp_path, toy_paper):
    """Run `plat` in a process that can see the installed package, with its own home."""

    def run(*arguments: object) -> subprocess.CompletedProcess:
        environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
        environment |= {"PYTHONPATH": str(toy_paper), "PLAT_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "plat", *map(str, arguments)]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    return run


def test_a_second_paper_runs_by_yaml_and_entry_points_alone(plat, tmp_path):
    done = plat("sweep", SPEC)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "climber" in done.stdout and "toy.learns" in done.stdout
    page = tmp_path / "home" / "reports" / "guessing" / "report.html"
    assert page.exists() and "Success at guessing a number" in page.read_text()

    claims = plat("claims", SPEC, "--json")
    assert claims.returncode == 0, claims.stderr
    (claim,) = json.loads(claims.stdout)["claims"]
    assert claim["id"] == "toy.learns" and claim["verdict"] == "reproduced"
    assert len(claim["run_ids"]) == 4

    again = plat("sweep", SPEC)
    assert again.returncode == 0 and again.stdout.startswith("nothing to do")


def test_without_the_package_the_message_says_what_is_missing(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "plat", "plan", str(SPEC), "--home", str(tmp_path / "home")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "toy_" in done.stderr and "fix: " in done.stderr


def test_a_trainer_that_cannot_be_imported_is_no_mistake_of_plat(tmp_path, toy_paper):
    site = tmp_path / "site"
    shutil.copytree(toy_paper, site)
    (site / "toy_paper" / "trainer.py").write_text("def broken(:\n")
    command = [sys.executable, "-m", "plat", "plan", str(SPEC), "--home", str(tmp_path / "home")]
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "'toy_hill_climber' of plat.trainers cannot be loaded: SyntaxError" in done.stderr


def test_nothing_in_the_repository_refers_to_the_second_paper():
    root = HERE.parents[1]
    files = [path for folder in ("platform", "envs", "analysis") for path in (root / folder).rglob("*.py")]
    names = ("toy_paper", "toy_hill_climber", "number_guessing")
    assert not [path for path in [*files, root / "pyproject.toml"] if any(name in path.read_text() for name in names)]
