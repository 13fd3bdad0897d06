"""Start, signal and watch the processes of jobs through the worker server, which is replaced when it dies."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.errors import RunError
from plat.processes.own_process import handling, without_dropped
from plat.processes.process_tree import signal_name

MAX_DEATHS = 3  # number of times that a dead server is replaced; the next death ends the sweep
_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[2]); "
    "from plat.dispatch.local.server import main; main(int(sys.argv[1]), json.loads(sys.argv[3]))"
)


class ServerGone(RunError):
    """The worker server could not start, or died more than MAX_DEATHS times; its unfinished runs are not done."""

    exit_code = 3


class ProcessesLost(Exception):
    """The server died and can be replaced. The kernel asked its workers to stop; they may still be saving."""


class Processes:
    """Start and stop one process per job. For one thread only.

    Raises, from `start`, `signal` and `ended`, ProcessesLost if the server died, and ServerGone if a new one would die
    too: no further process can be started.

    log       collects the output of the server
    describe  () -> (trainers that a new server loads, its environment)
    """

    def __init__(self, log: Path, describe: Callable[[], tuple[Sequence[str], dict[str, str]]]) -> None:
        self._log = log
        self._describe = describe
        self._server: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket  # while there is a server
        self._ready = False  # the server has imported its modules
        self._buffer = b""
        self._deaths = 0

    @property
    def loading(self) -> bool:
        """True if there is a server that has started no process yet because it still imports modules."""
        return self._server is not None and not self._ready

    def load(self) -> None:
        """Start a server, unless there is one. It imports the modules of workers: the first job starts sooner."""
        if self._server is not None:
            return
        trainers, environment = self._describe()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._connection, server_end = socket.socketpair()
        self._ready, self._buffer = False, b""
        arguments = [str(server_end.fileno()), json.dumps(sys.path), json.dumps(list(trainers))]
        # The server ignores Ctrl-C from its first instruction.
        with open(self._log, "ab") as output, handling(signal.SIG_IGN, signal.SIGINT), server_end:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, *arguments],
                pass_fds=[server_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**without_dropped(os.environ), **environment, "TOKENIZERS_PARALLELISM": "false"},
            )

    def start(self, request: dict[str, Any]) -> None:
        """Start the process of a job (see `jobs.start_request`); it was not started if ProcessesLost is raised."""
        self.load()
        self._send(request)

    def signal(self, job_id: str, number: int) -> None:
        """Send a signal to the process of a job, if it has one."""
        if self._server is not None:
            self._send({"op": "signal", "job": job_id, "number": int(number)})

    def ended(self, timeout: float) -> list[dict[str, Any]]:
        """Return the processes that ended since the last call, each as {"job", "status", "result"}.

        timeout  seconds to wait for the server's next message; the list may be empty before they have passed
        status   as from `os.waitpid`, e.g. 256 for exit code 1
        result   what the job's work returned; None if there is nothing

        Raises ProcessesLost if the server died, and ServerGone if it cannot be replaced.
        """
        if self._server is None:
            time.sleep(timeout)
            return []
        messages: list[dict[str, Any]] = []
        waiting = select.poll()  # `select.select` takes no descriptor above 1023
        waiting.register(self._connection, select.POLLIN)
        while waiting.poll(0.0 if messages else 1000 * timeout):
            try:
                data = self._connection.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                if not messages:
                    raise self._lost()
                break  # the end will be seen again
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            messages += [json.loads(line) for line in lines]
        self._ready = self._ready or any(message["event"] == "ready" for message in messages)
        return [message for message in messages if message["event"] == "exit"]

    def close(self, patience: float = 5.0) -> None:
        """Close the server and wait at most `patience` seconds for its end.

        It asks running processes to stop and ends after they have saved, if need be after this call has returned. A
        server that still imports modules is killed.
        """
        if self._server is None:
            return
        self._connection.close()
        if not self._ready:
            self._server.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it waits for its workers to save, and then ends
            self._server.wait(patience)
        self._server = None

    def _send(self, request: dict[str, Any]) -> None:
        try:
            self._connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise self._lost() from error

    def _lost(self) -> Exception:
        """Return the exception for a dead server; the next job starts another."""
        assert self._server is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.wait(1.0)
        code, was_ready = self._server.returncode, self._ready
        self.close(0.0)
        self._deaths += 1
        how = "it closed its connection" if code is None else f"exit code {code}"
        how = f"ended by {signal_name(-code)}" if code is not None and code < 0 else how
        tail = ""
        with contextlib.suppress(OSError):
            tail = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
        what = f"the worker server died ({how}){': ' + tail if tail else ''}"
        if was_ready and self._deaths <= MAX_DEATHS:
            return ProcessesLost(what)
        fix = "the log says more; `plat doctor` checks the installation"
        return ServerGone(what, failure_class="node", where=str(self._log), fix=fix)


# What the worker server knows of a worker, and its ends of the pipes to it.


@dataclass
class WorkerHandle:
    """A worker. Requests and results are lines of JSON.

    job          the job that it executes; None while it waits for the next
    environment  variables with which it was started
    requests     descriptor of the pipe for further jobs; None if the worker ends after its job
    results      descriptor of the pipe for the result of each job
    """

    job: str | None
    environment: dict[str, str]
    requests: int | None
    results: int
    _read: bytes = b""

    @classmethod
    def opened(cls, request: dict[str, Any]) -> tuple[WorkerHandle, tuple[int | None, int]]:
        """Return the handle for the worker that will execute a job, and the worker's ends: (requests, results).

        Raises OSError if this process may open no more files.
        """
        results, writer = os.pipe()
        try:
            reader, requests = os.pipe() if request["reuses_process"] else (None, None)
        except OSError:
            close(results, writer)
            raise
        os.set_blocking(results, False)
        return cls(request["job"], request["env"], requests, results), (reader, writer)

    def may_go_on(self) -> bool:
        """Return True if the worker executes a job and may wait for a further one after it."""
        return self.job is not None and self.requests is not None

    def waits(self) -> bool:
        """Return True if the worker waits for a further job."""
        return self.job is None and self.requests is not None

    def dismiss(self) -> None:
        """Let a worker that waits end."""
        close(self.requests)
        self.requests = None

    def give(self, request: dict[str, Any]) -> bool:
        """Give the worker a further job. Returns False if it cannot take it."""
        if self.job is not None or self.requests is None or self.environment != request["env"]:
            return False
        try:
            os.write(self.requests, _line(request))
        except BrokenPipeError:  # it has just died
            return False
        self.job, self._read = request["job"], b""
        return True

    def result(self) -> dict[str, Any] | None:
        """Return the result of the job, None if there is none yet."""
        with contextlib.suppress(BlockingIOError):
            self._read += os.read(self.results, 1 << 16)
        return json.loads(self._read) if self._read.endswith(b"\n") else None

    def close(self) -> None:
        """Close the pipes at this end."""
        close(self.requests, self.results)


def write_result(descriptor: int, result: dict[str, Any]) -> None:
    """Write the result of a job, as a worker. It is short: the pipe holds it, so this cannot block."""
    os.write(descriptor, _line(result))


def close(*descriptors: int | None) -> None:
    """Close the descriptors that are not None."""
    for descriptor in descriptors:
        if descriptor is not None:
            os.close(descriptor)


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
