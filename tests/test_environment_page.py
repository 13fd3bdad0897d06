"""The environment on the page *Adding an environment* is planned and trained as the page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fresh_plat import fresh_plat

PAGE = (Path(__file__).parents[1] / "docs" / "adding-an-environment.md").read_text()


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)[number]


@pytest.fixture
def plat(tmp_path):
    package = tmp_path / "site" / "my_package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "blackjack.py").write_text(block("python"))
    about = tmp_path / "site" / "my_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    header, line = block("toml").strip().splitlines()
    group = header.removeprefix('[project.entry-points."').removesuffix('"]')
    (about / "entry_points.txt").write_text(f"[{group}]\n{line.replace(chr(34), '')}\n")
    (tmp_path / "blackjack.yaml").write_text(block("yaml"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PLAT_HOME": str(tmp_path / "home")}
        return fresh_plat(*arguments, cwd=tmp_path, env=environment, timeout=300)

    return run


def test_the_page_makes_a_task_of_thirty_lines(plat):
    lines = [line for line in block("python").splitlines() if line.strip()]
    assert len(lines) <= 40
    done = plat("sweep", "blackjack.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    runs = json.loads(plat("status", "blackjack.yaml", "--json").stdout)
    assert "finished" in json.dumps(runs)


def test_the_check_of_the_splits_says_what_the_page_says(plat, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    (line,) = re.findall(r"^python (-m plat_envs.show .*)$", PAGE, re.M)
    done = subprocess.run([sys.executable, *line.split()], env=environment, capture_output=True, text=True, timeout=60)
    start, end = re.search(r"it says `(.*?)\.\.\.(.*?)`", PAGE).groups()
    assert done.returncode == 2 and done.stderr.startswith(f"error: {start}") and end in done.stderr


def test_what_is_missing_is_named_before_any_run(plat, tmp_path):
    file = tmp_path / "site" / "my_package" / "blackjack.py"
    file.write_text(file.read_text().replace("def close", "def shut"))
    planned = plat("plan", "blackjack.yaml")
    assert planned.returncode == 2 and "it has no `close`" in planned.stderr and "blackjack.py" in planned.stderr
