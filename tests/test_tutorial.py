"""The tutorial, word for word: its files are saved and its commands run in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.M | re.S)


def run(command: str, folder: Path) -> str:
    bin_folder = str(Path(sys.executable).parent)
    given = {name: text for name, text in os.environ.items() if name not in ("PLAT_HOME", "MLFLOW_TRACKING_URI")}
    environment = {**given, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.long
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    (script,), (experiment,) = blocks("python"), blocks("yaml")
    first, sweep, axis, look, plan = ([line for line in block.splitlines() if line] for block in blocks("sh"))
    (tmp_path / "train.py").write_text(script)
    for command in first:
        shown = run(command, tmp_path)
    assert "5 missing" in shown and "hidden: 32" in (tmp_path / "train.yaml").read_text()
    (tmp_path / "digits.yaml").write_text(experiment)
    shown = run(*sweep, tmp_path)
    assert len(shown.splitlines()) <= 25, shown
    assert re.search(r"hidden = 8 +8\d\.\d \[", shown) and re.search(r"hidden = 32 +9\d\.\d \[", shown), shown
    assert "shown  wider-is-better: 32 hidden units recognise more digits than 8." in shown
    shown = run(*axis, tmp_path)
    assert "20 of 20 done" in shown and "The effect of lr" in shown
    assert "wider-is-better/lr-0.1" in shown and "wider-is-better/lr-0.3" in shown
    assert "hidden32-s4" in run(look[0], tmp_path)
    for command in look[1:]:
        run(command, tmp_path)
    assert (tmp_path / "digits-results" / "manifest.json").exists()
    old, new = re.findall(r"`(torch\.optim\.SGD\(.*?\))`", PAGE)
    (tmp_path / "train.py").write_text(script.replace(old, new))
    shown = run(*plan, tmp_path)
    assert "note: train.py changed since 10 runs of these configs were made" in shown and "10 missing" in shown
