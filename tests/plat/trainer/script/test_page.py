"""The page on scripts: its files, as they are printed, give what it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[4] / "docs" / "your-own-script.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.M | re.S)


def test_the_files_of_the_page_give_tables_curves_and_effects(
    plat: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_named: None
) -> None:
    monkeypatch.chdir(tmp_path)
    train, resumable = blocks("python")
    Path("train.py").write_text(train)
    Path("lr.yaml").write_text(blocks("yaml")[0])
    code, out, _ = plat("sweep", "lr.yaml")
    assert code == 0 and "The effect of lr on loss" in out
    assert "model that ran" not in out and "validation" not in out and "build" not in out
    files = {path.name for path in Path("plat-home/reports/lr").iterdir()}
    assert {"effect_of_lr.csv", "learning_curves_loss.png", "report.html"} <= files
    assert "Nothing to do: all 6 runs are done" in plat("plan", "lr.yaml")[1]
    Path("switches.py").write_text("import sys\nprint('{\"loss\": 1}')\nprint('GIVEN', sys.argv[1:])\n")
    Path("switches.yaml").write_text(blocks("yaml")[2])
    assert plat("sweep", "switches.yaml", "--home", "other")[0] == 0
    logs = [log.read_text() for log in Path("other").rglob("log.txt")]
    given = [line for log in logs for line in log.splitlines() if line.startswith("GIVEN")]
    words = {True: ["--amp"], False: []}, {True: [], False: ["--no-ema"]}
    assert sorted(given) == sorted(
        f"GIVEN {['--lr', '0.1', *words[0][amp], *words[1][ema], '--sizes', '64', '32']}"
        for amp in (True, False)
        for ema in (True, False)
    )
    Path("claim.yaml").write_text(blocks("yaml")[1])
    code, out, _ = plat("sweep", "claim.yaml")
    assert code == 0 and "shown  slow" in out and "above zero: lr = " in out
    Path("resumable.py").write_text(resumable)
    Path("resumable.yaml").write_text("title: x\nbase: {trainer: script, script.command: python resumable.py}\n")
    assert plat("sweep", "resumable.yaml")[0] == 0
