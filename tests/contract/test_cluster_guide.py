"""docs/cluster.md, word for word, on a real SLURM: its files are written, its commands given in their order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from clusters import ROOT

GUIDE = (ROOT / "docs" / "cluster.md").read_text()
COMMANDS = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n(.*?)```", GUIDE, re.S)
    for line in block.splitlines()
    if line.startswith("$ ")
]


def test_the_guide_has_commands_and_every_profile_that_it_names():
    assert len(COMMANDS) >= 6
    for name in re.findall(r"`(?:slurm/)?(\w+\.yaml)`", GUIDE):
        assert name in ("first.yaml", "mine.yaml") or (ROOT / "slurm" / name).is_file()


@pytest.mark.cluster
def test_every_command_of_the_guide_does_what_it_says(real, tmp_path):
    experiment, profile = re.findall(r"```yaml\n(.*?)```", GUIDE, re.S)
    (tmp_path / "first.yaml").write_text(experiment)
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm" / "mine.yaml").write_text(profile)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    said = {}
    for command in COMMANDS:
        if command.startswith("plat report"):
            _wait_for_the_runs(tmp_path)
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        said.setdefault(command, []).append(done.stdout)
    assert "4 missing" in said["plat plan first.yaml"][0]
    assert "4 of 4 runs are with the scheduler" in said["plat sweep first.yaml --on slurm cluster=mine"][0]
    assert "4 done of 4" in said["plat status first.yaml"][-1]
    submissions = list((tmp_path / "plat-home" / "submissions").iterdir())
    assert len(submissions) == 1 and "plat-" in said["squeue --me"][0]


def _wait_for_the_runs(folder: Path) -> None:
    until = time.monotonic() + 300
    while len(list(folder.glob("plat-home/runs/*/*/result.json"))) < 4:
        assert time.monotonic() < until
        time.sleep(0.5)
