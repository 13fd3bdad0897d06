"""docs/ray.md, word for word, on a real Ray: its file is written, its commands given in their order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from clusters import ROOT

from plat.dispatch.ray.ray_settings import RaySettings

GUIDE = (ROOT / "docs" / "ray.md").read_text()
COMMANDS = re.findall(r"^\$ (.*)$", GUIDE, re.M)


def test_the_guide_has_commands_and_explains_every_setting():
    assert len(COMMANDS) == 7
    table = GUIDE.partition("## Settings")[2].partition("## ")[0]
    assert all(f"`{field.name}" in table for field in fields(RaySettings))


@pytest.mark.long
@pytest.mark.cluster
def test_every_command_of_the_guide_does_what_it_says(ray, tmp_path):
    for name, text in zip(("first", "search"), re.findall(r"```yaml\n(.*?)```", GUIDE, re.S), strict=True):
        (tmp_path / f"{name}.yaml").write_text(text)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "RAY_ADDRESS": ray.address}
    said = {}
    for command in COMMANDS:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert "ray." not in done.stderr and "(pid=" not in done.stdout
        said[command] = done.stdout
    assert "4 missing" in said[COMMANDS[0]] and "4 done of 4" in said[COMMANDS[2]]
    assert "3 trials" in said[COMMANDS[6]] and "complete" in said[COMMANDS[6]]
    assert 8 < len(list(tmp_path.glob("plat-home/runs/*/*/result.json"))) <= 8 + 3
    assert len(list(tmp_path.glob("plat-home/runs/*/*/attempts/002"))) == 0
