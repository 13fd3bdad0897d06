"""The agent of `benchmarks/agent_loop.py` knows from `plat skill` alone what to keep."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "benchmarks" / "agent_loop.py"


@pytest.fixture
def agent_loop():
    found = importlib.util.spec_from_file_location("agent_loop", FILE)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_page_says_what_to_keep_after_each_code(agent_loop):
    text = (ROOT / "platform" / "plat" / "cli" / "skill.md").read_text()
    assert agent_loop.codes_to_keep(text) == {0}
    assert all(f"\n| {code} | " in text for code in (0, 3, 10, 11, 12, 13))


def test_edits_change_what_they_say(agent_loop):
    gain, noise = (agent_loop.edited(agent_loop.SCRIPT, kind, 4) for kind in ("gain", "noise"))
    assert "NOISE = 1.6000" in gain and "ORDER = 0" in gain
    assert "ORDER = 5" in noise and "NOISE = 2.0" in noise


@pytest.mark.long
def test_two_rounds(tmp_path):
    command = [sys.executable, str(FILE), "--rounds", "2", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0 and "kept 1 of 1 gains and 0 of 1 edits without effect" in done.stdout, done.stderr
