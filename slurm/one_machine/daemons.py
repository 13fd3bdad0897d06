"""Start, query and end the daemons of a cluster that keeps its files in one folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path


class ClusterError(Exception):
    """The cluster cannot be started; the message has the reason."""


def search_path() -> str:
    """Return the PATH for the daemons: Debian keeps them in folders that are not on a user's PATH."""
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def missing_programs(names: Sequence[str]) -> list[str]:
    """Return those of these programs that are not installed."""
    return [name for name in names if shutil.which(name, path=search_path()) is None]


class Commands:
    """Run commands with the variables of a cluster's clients. The output of `run` and `start` goes to `logs`."""

    def __init__(self, environment: Mapping[str, str], logs: Path) -> None:
        self._environment = environment
        self._logs = logs

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **self._environment, "PATH": search_path()}

    def run(self, *command: str) -> None:
        """Run a command that ends by itself. ClusterError unless its exit code is 0, TimeoutExpired after 120 s."""
        log = self._logs / f"{Path(command[0]).name}-start.txt"
        with open(log, "ab") as output:  # the daemon would hold a pipe open
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.environment, timeout=120
            )
        if done.returncode:
            raise ClusterError(f"{command[0]} failed: {log.read_text(errors='replace').strip()[-500:]}")

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a server that stays in the foreground; the caller ends it."""
        with open(self._logs / f"{Path(command[0]).name}.log", "ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self.environment,
            )

    def succeeds(self, *command: str) -> bool:
        """Return True if a command is installed and ends with exit code 0 within 30 s."""
        try:
            done = subprocess.run(command, capture_output=True, env=self.environment, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    def output(self, *command: str) -> str:
        """Return the standard output of a command, whatever its exit code. TimeoutExpired after 30 s."""
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=30).stdout


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until a condition holds; raise ClusterError after `seconds`. `what` completes "waited until ..."."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"waited {seconds:.0f} s in vain until {what}")
        time.sleep(0.1)


def end_daemon(pid_file: Path) -> None:
    """End the process whose number is in `pid_file`, and remove the file; do nothing without such a file.

    Sends SIGTERM, and after 20 s SIGKILL.
    """
    try:
        pid = int(pid_file.read_text())
    except (OSError, ValueError):
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        with contextlib.suppress(ClusterError):
            wait_until(lambda: not _is_alive(pid), 20, f"process {pid} ends")
            break
    pid_file.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def free_ports(count: int) -> list[int]:
    """Return consecutive ports of 127.0.0.1 that are free now; ClusterError if there are none from 17000 to 30000."""
    start = 17000 + 50 * (os.getpid() % 200)
    for first in (*range(start, 30000, 50), *range(17000, start, 50)):
        ports = range(first, first + count)
        with contextlib.suppress(OSError), _bound(ports):
            return list(ports)
    raise ClusterError("no free ports")


@contextlib.contextmanager
def _bound(ports: Sequence[int]) -> Iterator[None]:
    """Listen on all these ports; raise OSError if one is taken."""
    with contextlib.ExitStack() as stack:
        for port in ports:
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        yield
