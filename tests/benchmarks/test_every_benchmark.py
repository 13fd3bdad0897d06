"""Every benchmark runs to its end, with a hundredth of its usual sizes; its figures are not judged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
LONG = {"big_store", "finished", "jobs", "retrieval", "scale", "together", "trainer"}  # more than ten seconds even so
NAMES = sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long) if n in LONG else n for n in NAMES])
def test_it_runs(name):
    command = [sys.executable, str(FOLDER / f"bench_{name}.py")]
    environment = {**os.environ, "PLAT_BENCH_SHARE": "0.01"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0 and "BENCH {" in done.stdout, done.stdout[-2000:] + done.stderr[-4000:]
