"""A process that makes and scores items for this one, and is started again after a request that took too long."""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import time
from typing import Any

STARTING = 120.0  # for the first answer, which includes the import of the package [seconds]
PATIENCE = 20.0  # times the limit of processor time: other work on the machine must not change a score


class WorkerDied(Exception):
    """The process ended while it worked on a request."""


class WorkerProcess:
    """The process of `plat_envs.doors.worker`, started at the first request. It ends with the last of its users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self.users = 0

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return the answer to a request; None if it takes more than `seconds` of processor time.

        A process that waits is given up after PATIENCE times as long. One that dies is started again and asked once
        more. Raises WorkerDied if it dies of the request.
        """
        with self._lock:
            try:
                return self._asked(request, seconds)
            except WorkerDied:  # perhaps it was killed before this request
                return self._asked(request, seconds)

    def _asked(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        starting = self._process is None
        process = self._process or self._start()
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process, seconds + (STARTING if starting else 0.0))
        except (OSError, WorkerDied) as error:
            self._end()
            raise WorkerDied from error
        if line is None:
            self._end()
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def release(self) -> None:
        """Say that one user needs the process no more."""
        with self._lock:
            self.users -= 1
            if self.users == 0:
                self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        self._rest = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "plat_envs.doors.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": "0"},  # the order of sets decides some items
        )
        return self._process

    def _line(self, process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
        """Return the next line of the process without its end; None if it takes too long. WorkerDied if it ends."""
        assert process.stdout is not None
        used, until = _processor_seconds(process.pid) + seconds, time.monotonic() + PATIENCE * seconds
        while b"\n" not in self._rest:
            ready, _, _ = select.select([process.stdout], [], [], 0.05)
            if ready:
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise WorkerDied
                self._rest += chunk
            elif _processor_seconds(process.pid) > used or time.monotonic() > until:
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


_SHARED = WorkerProcess()
atexit.register(_SHARED._end)


def shared_worker() -> WorkerProcess:
    """Return the worker of this process, with one user more: call `release` when it is not needed any more."""
    _SHARED.users += 1
    return _SHARED
