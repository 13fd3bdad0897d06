"""The guard ends what a run's own Ray has started and removes its folder, however the run's process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from plat.processes.identification import marked, process_start
from plat_rl.verl.machines import guard

# Starts a daemon in a session of its own that ignores SIGTERM, inside `guarded`; then ends as it is told to.
SCRIPT = """
import os, signal, subprocess, sys, time
from pathlib import Path
from plat_rl.verl.machines.guard import guarded
folder, way = sys.argv[1:]
daemon = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
with guarded(folder):
    process = subprocess.Popen([sys.executable, "-c", daemon], stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    Path(folder, "socket").touch()
    temporary = [sys.executable, "-c", "import tempfile; print(tempfile.mkstemp()[1])"]
    assert subprocess.run(temporary, capture_output=True, text=True).stdout.startswith(folder)
    Path(folder + ".pid").write_text(str(process.pid))
    if way == "killed":
        os.killpg(0, signal.SIGKILL)
    elif way == "guard killed":
        (guard,) = set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())) - {process.pid}
        os.kill(guard, signal.SIGKILL)
    elif way == "raises":
        sys.exit(3)
"""


@pytest.mark.parametrize(
    ("way", "status"), [("ends", 0), ("raises", 3), ("killed", -signal.SIGKILL), ("guard killed", 0)]
)
def test_nothing_is_left_behind(tmp_path: Path, way: str, status: int) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    command = [sys.executable, "-c", SCRIPT, str(folder), way]
    assert subprocess.run(command, start_new_session=True, timeout=60).returncode == status
    daemon = int(Path(f"{folder}.pid").read_text())
    until = time.monotonic() + 30
    while folder.exists() and time.monotonic() < until:
        assert way == "killed", "in every other way the run's process waits for the guard"
        time.sleep(0.01)
    assert not folder.exists() and process_start(daemon) is None


def test_other_processes_are_left_alone(tmp_path: Path) -> None:
    other = {**os.environ, guard.MARK: str(tmp_path / "other")}
    with subprocess.Popen(["cat"], env=other, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
        try:
            # A process has no environment yet for a moment after Popen returns; one that answers has it.
            os.write(stranger.stdin.fileno(), b"!")  # type: ignore[union-attr]
            assert os.read(stranger.stdout.fileno(), 1) == b"!"  # type: ignore[union-attr]
            assert marked(guard.MARK, str(tmp_path / "other")) == [stranger.pid]
            guard.clear_up(str(tmp_path / "oth"))
            assert stranger.poll() is None
            guard.clear_up(str(tmp_path / "other"))
            assert stranger.wait(30) == -signal.SIGKILL
        finally:
            stranger.kill()
