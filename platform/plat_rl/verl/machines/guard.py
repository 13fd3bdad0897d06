"""The guard of a run's Ray: a small process that cleans up after the run's process, however that ends.

The guard waits for the end of a pipe that only the run's process holds; the kernel closes it even after SIGKILL. Then
it kills all processes started inside `guarded`, found by a mark in their environment, and removes Ray's folder. It
leads a separate session and ignores signals to end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plat.processes.identification import READABLE, kill_marked

SCRATCH = "plat-verl-"  # of names of folders, which are short, because names of sockets must be
MARK = "PLAT_VERL_SCRATCH"  # the environment variable that names the folder of the Ray a process belongs to


def scratch_folder() -> str:
    """Return a new folder for sockets and logs of a Ray of this process; remove those of processes that are gone."""
    import psutil

    for folder in Path("/tmp").glob(f"{SCRATCH}*"):
        owner = folder.name.removeprefix(SCRATCH).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-", dir="/tmp")


@contextmanager
def guarded(folder: str) -> Iterator[str]:
    """End every process that the block starts, and remove the folder, when the block or this process ends.

    Yields the folder. In the block, TMPDIR in the environment names it. Processes are killed: stop those that must end
    in an orderly way inside the block.
    """
    command = [sys.executable, "-P", "-m", "plat_rl.verl.machines.guard", folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as guard:
        tempfile.gettempdir()  # of this process; remembered before what it starts gets another
        before = os.environ.get("TMPDIR")
        os.environ.update({MARK: folder, "TMPDIR": folder, **READABLE})
        try:
            yield folder
        finally:
            del os.environ[MARK], os.environ["TMPDIR"]
            if before is not None:
                os.environ["TMPDIR"] = before
            assert guard.stdin is not None
            guard.stdin.close()
            if guard.wait() != 0:  # it was killed
                clear_up(folder)


def clear_up(folder: str) -> None:
    """Kill every process whose environment has MARK with this folder, and remove the folder."""
    kill_marked(MARK, folder)
    shutil.rmtree(folder, ignore_errors=True)


def main(folder: str) -> None:
    """Wait until standard input is closed at its other end, then clear up. Ignores SIGTERM, SIGINT and SIGHUP."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    clear_up(folder)


if __name__ == "__main__":
    main(sys.argv[1])
