"""A program on another machine of a run ends with whoever holds its standard input; here with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

COMMAND = [sys.executable, "-m", "plat.processes.until_closed"]
# Starts a daemon in a session of its own, writes the daemon's number to a file, and lives on.
FAMILY = """
import os, subprocess, sys, time
from pathlib import Path
daemon = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
part = Path(sys.argv[1] + ".part")
part.write_text(str(daemon.pid))
part.rename(sys.argv[1])
time.sleep(100)
"""


@pytest.fixture
def family(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    """A program that is run until its input is closed, and the processes below it: its command, and a daemon."""
    file = tmp_path / "daemon"
    runner = subprocess.Popen([*COMMAND, sys.executable, "-c", FAMILY, str(file)], stdin=subprocess.PIPE)
    until = time.monotonic() + 60
    while not file.exists():
        assert runner.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    below = psutil.Process(runner.pid).children(recursive=True)
    assert int(file.read_text()) in [process.pid for process in below] and len(below) == 2
    yield runner, below
    for process in below:
        if process.is_running():
            process.kill()
    with runner:  # closes its input
        runner.kill()


@pytest.mark.parametrize("how", ["closed", "asked to end"])
def test_everything_ends_with_the_input_and_when_it_is_asked_to(family, how) -> None:
    runner, below = family
    if how == "closed":
        runner.stdin.close()
    else:
        os.kill(runner.pid, signal.SIGTERM)
    assert runner.wait(60) == 0
    _, left = psutil.wait_procs(below, timeout=10)
    assert not left


def test_a_command_that_ends_by_itself_ends_what_it_has_started_and_gives_its_code(tmp_path: Path) -> None:
    script = FAMILY.replace("time.sleep(100)\n", "raise SystemExit(7)\n")
    assert script != FAMILY
    file = tmp_path / "daemon"
    with subprocess.Popen([*COMMAND, sys.executable, "-c", script, str(file)], stdin=subprocess.PIPE) as runner:
        assert runner.wait(60) == 7
    assert not psutil.pid_exists(int(file.read_text()))
