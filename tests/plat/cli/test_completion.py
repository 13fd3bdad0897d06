"""What a shell is told, by the functions and by the program, in a folder with files and a home with runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from plat.cli.verb_list import COMPLETES
from plat.store.disk.durable import to_checked_json

FILE = """
title: x
base: {trainer: script, script.command: 'python train.py --lr {lr} {mine.size}', mine.size: 3}
matrix: {lr: [0.1, 0.2]}
"""
NAMES = {"ab12cd34ef567890": "ppo-s0-ab12cd34", "ab99cd34ef567890": "grpo-s0-ab99cd34"}
BIN = Path(sys.executable).parent


@pytest.fixture
def here(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(FILE)
    (tmp_path / "train.py").write_text("")
    for run_id, name in NAMES.items():
        folder = home / "runs" / run_id[:2] / run_id
        folder.mkdir(parents=True)
        (folder / "meta.json").write_bytes(to_checked_json({"id": run_id, "name": name}))
    return tmp_path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("plat sw", ["sweep"]),
        ("plat --", ["--version", "--help"]),
        ("plat nonsense x", []),
        ("plat base ", ["list", "build", "verify"]),
        ("plat base build --o", ["--out"]),
        ("plat sweep mi", []),  # the shell names the files
        ("plat sweep mine.yaml --dr", ["--dry-run"]),
        ("plat sweep mine.yaml --jobs 2 --dr", ["--dry-run"]),
        ("plat sweep mine.yaml mine.s", ["mine.size="]),
        ("plat sweep mine.yaml matrix.l", ["matrix.lr="]),
        ("plat sweep mine.yaml lr=", []),
        ("plat sweep broken.yaml lr", []),
        ("plat run trainer=script script.ste", ["script.step="]),
        ("plat run trainer = script script.ste", ["script.step="]),
        ("plat run filter.ru", ["filter.rule="]),
        ("plat run matrix.filter.ru", ["matrix.filter.rule="]),
        ("plat options filter.ru", ["filter.rule"]),
        ("plat options --trainer script script.ste", ["script.step"]),
        ("plat logs p", ["ppo-s0-ab12cd34"]),
        ("plat logs ", ["ppo-s0-ab12cd34", "grpo-s0-ab99cd34"]),
        ("plat why ab", ["ab12cd34", "ab99cd34"]),
        ("plat why --home elsewhere ", []),
        ("plat diff mine.yaml gr", ["grpo-s0-ab99cd34"]),
        ("plat diff filter.ru", ["filter.rule="]),
        ("plat completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_bash_is_told(here: Path, plat: Any, monkeypatch: pytest.MonkeyPatch, line: str, expected: list[str]) -> None:
    words = line.split(" ")
    monkeypatch.setenv(COMPLETES, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "\n".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    code, out, err = plat()
    assert (code, out.split(), err) == (0, expected, "")


def test_the_script_works_in_bash(here: Path) -> None:
    asks = """
        eval "$(plat completion bash)"
        COMP_WORDS=(plat sw) COMP_CWORD=1
        _plat_completion plat
        echo "${COMPREPLY[*]}"
    """
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "--norc", "-c", asks], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == ("sweep\n", "")


@pytest.mark.parametrize(
    ("shell", "line"), [("zsh", "compdef _plat_completion plat"), ("fish", "complete --command plat")]
)
def test_the_scripts_of_other_shells(plat: Any, shell: str, line: str) -> None:
    code, out, _ = plat("completion", shell)
    assert code == 0 and line in out
