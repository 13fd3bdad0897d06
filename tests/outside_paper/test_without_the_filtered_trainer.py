"""The platform works in an environment that has neither the filtered trainer nor torch."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ABSENT = ("plat_rl", "plat_ragen2", "torch", "verl", "gymnasium", "regex", "transformers")
SCRIPT = """import argparse, json
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--seed", type=int, default=0)
given = parser.parse_args()
for step in range(3):
    print(json.dumps({"step": step, "loss": 1 / (1 + step * given.lr) + 0.01 * given.seed}))
"""
FINDER = f"""import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""
Plat = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH: the platform with its entry points, and nothing of ABSENT can be imported."""
    folder = tmp_path / "bare"
    for package in ("platform/plat", "analysis/plat_analysis", "envs/plat_envs"):
        (folder / Path(package).name).parent.mkdir(exist_ok=True)
        (folder / Path(package).name).symlink_to(ROOT / package)
    (folder / "sitecustomize.py").write_text(FINDER)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = []
    for group, points in project["entry-points"].items():
        kept = [f"{name} = {place}" for name, place in points.items() if not place.startswith(ABSENT)]
        lines += [f"[{group}]", *kept] if kept else []
    info = folder / "plat-0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plat\nVersion: 0.0\n")
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def plat(tmp_path: Path, bare: Path, toy_paper: Path) -> Plat:
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
        environment |= {"PYTHONPATH": f"{bare}:{toy_paper}", "PLAT_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "plat", *map(str, arguments)]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    return run


def test_the_trainer_of_another_package_is_swept_and_its_claims_are_judged(plat: Plat, tmp_path: Path) -> None:
    done = plat("sweep", HERE / "experiments" / "guessing.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "toy.learns" in done.stdout
    assert (tmp_path / "home" / "reports" / "guessing" / "report.html").exists()


def test_a_script_is_swept_and_reported(plat: Plat, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    for arguments in (["init", "train.py"], ["sweep", "train.yaml"], ["runs"], ["options"], ["--help"]):
        done = plat(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "home" / "reports" / "train" / "report.html").exists()


def test_a_file_that_names_no_trainer_is_refused_in_one_message(plat: Plat, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("title: mine\nbase: {task: frozenlake}\nmatrix: {seed: [0]}\n")
    refused = plat("plan", "mine.yaml")
    assert refused.returncode == 2 and "no trainer is named" in refused.stderr and "Traceback" not in refused.stderr
    assert "recorded, script" in refused.stderr
