"""The parent's end of the worker server: starts it, sends requests, collects its messages. For one thread only."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from plat.dispatch.local.jobs import signal_name
from plat.errors import RunError
from plat.runner.inherited import without_dropped

_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[2]); "
    "from plat.dispatch.local.server import main; main(int(sys.argv[1]), json.loads(sys.argv[3]))"
)


class ServerGone(RunError):
    """The worker server died (killed, out of memory, or it could not start). Runs that were to be done are not."""

    exit_code = 3


class WorkerServer:
    """A running server. It has imported what the trainers need; `log` has what that printed."""

    def __init__(self, log: Path, trainers: Sequence[str], environment: Mapping[str, str]) -> None:
        self.log = log
        self.ready = False
        log.parent.mkdir(parents=True, exist_ok=True)
        self._connection, server_end = socket.socketpair()
        self._buffer = b""
        arguments = [str(server_end.fileno()), json.dumps(sys.path), json.dumps(list(trainers))]
        with open(log, "ab") as output, _ignoring_interrupts(), server_end:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, *arguments],
                pass_fds=[server_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**without_dropped(os.environ), **environment, "TOKENIZERS_PARALLELISM": "false"},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, request: Mapping[str, Any]) -> None:
        """ServerGone when there is nobody to send it to."""
        try:
            self._connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise self._gone() from error

    def receive(self, timeout: float) -> list[dict[str, Any]]:
        """Messages that came in, waiting at most `timeout` seconds for the first. ServerGone at its end."""
        messages: list[dict[str, Any]] = []
        while select.select([self._connection], [], [], 0.0 if messages else timeout)[0]:
            try:
                data = self._connection.recv(1 << 16)
            except ConnectionError as error:
                raise self._gone() from error
            if not data:
                if messages:
                    return messages  # the end will be seen again
                raise self._gone()
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            messages += [json.loads(line) for line in lines]
        self.ready = self.ready or any(message["event"] == "ready" for message in messages)
        return [message for message in messages if message["event"] != "ready"]

    def close(self, patience: float = 5.0) -> None:
        """Close the line, on which the server ends, and wait for it a little; one that still loads is killed."""
        self._connection.close()
        if not self.ready:
            self._process.kill()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            pass  # it is waiting for its workers to save, and ends by itself

    def _gone(self) -> ServerGone:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        tail = ""
        with contextlib.suppress(OSError):
            tail = self.log.read_text(errors="replace").strip().rpartition("\n")[2]
        return ServerGone(
            f"the worker server died ({_how(self._process.returncode)}){': ' + tail if tail else ''}",
            failure_class="node",
            where=str(self.log),
            mend="the log says more; `plat doctor` checks the installation",
        )


def _how(code: int | None) -> str:
    if code is None:
        return "it closed its line"
    return f"ended by {signal_name(-code)}" if code < 0 else f"exit code {code}"


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """A process started meanwhile ignores Ctrl-C from its first instruction on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
