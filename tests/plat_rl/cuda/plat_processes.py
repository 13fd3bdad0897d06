"""Start `plat` as its users do, kill it, and find what it has left."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

import plat
import plat_analysis
import plat_envs

MARK = "PLAT_TEST_OF_THE_DEVICE"  # a variable by which the processes of a test are known, whatever their parents are
# The processes have the code of this one, also where another copy is installed.
SOURCES = os.pathsep.join(str(Path(package.__path__[0]).parent) for package in (plat, plat_envs, plat_analysis))


@contextlib.contextmanager
def started(mark: str, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`plat ARGUMENTS` with its output in a file; whatever it has started is dead afterwards."""
    environment = {**os.environ, MARK: mark, "PYTHONPATH": SOURCES}
    with log.open("wb") as output:
        command = [sys.executable, "-m", "plat", *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment)
        try:
            yield process
        finally:
            kill_all(mark)
            process.wait()


def processes_of(mark: str) -> list[psutil.Process]:
    """Every living process that has inherited this mark."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def kill_all(mark: str) -> None:
    """Send SIGKILL to every process with this mark, first those that could ask others to save."""
    for process in sorted(processes_of(mark), key=lambda each: each.pid, reverse=True):
        with contextlib.suppress(psutil.Error):
            process.kill()


def wait_until(condition: Callable[[], object], seconds: float, what: str) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"{what} took more than {seconds:g} s"
        time.sleep(0.002)


def finish(processes: Sequence[tuple[subprocess.Popen[bytes], Path]], seconds: float) -> None:
    """Wait for processes that must succeed; a failure shows the end of the log."""
    for process, log in processes:
        code = process.wait(seconds)
        assert code == 0, f"exit code {code}: {log.read_text()[-3000:]}"
