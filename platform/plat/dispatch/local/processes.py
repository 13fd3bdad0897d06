"""Processes of jobs: started, signalled and heard through the worker server, which is replaced when it dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from plat.dispatch.local.client import ServerGone, WorkerServer

MAX_DEATHS = 3  # so often is a server that dies replaced; the next death ends the sweep


class ProcessesLost(Exception):
    """The server died, and can be replaced. Its workers were asked to stop by the kernel, and may still be saving."""


class Processes:
    """Starts and stops one process per job. `ServerGone`, from any method, means that no further one can be started.

    describe   what a new server loads and with what environment: () -> (trainers, environment)
    """

    def __init__(self, log: Path, describe: Callable[[], tuple[Sequence[str], dict[str, str]]]) -> None:
        self._log = log
        self._describe = describe
        self._server: WorkerServer | None = None
        self._deaths = 0

    @property
    def loading(self) -> bool:
        """There is a server, and it has started no process yet, because it still imports modules."""
        return self._server is not None and not self._server.ready

    def load(self) -> None:
        """Let a server import what workers need, so that the first job starts sooner."""
        self._running_server()

    def start(self, request: dict[str, Any]) -> None:
        """Start the process of a job (see `jobs.start_request`). ProcessesLost when it was not started."""
        try:
            self._running_server().send(request)
        except ServerGone as gone:
            raise self._lost(gone) from gone

    def signal(self, job_id: str, number: int) -> None:
        """Send a signal to a job's process, where there is one."""
        if self._server is None:
            return
        try:
            self._server.send({"op": "signal", "job": job_id, "number": int(number)})
        except ServerGone as gone:
            raise self._lost(gone) from gone

    def ended(self, timeout: float) -> list[dict[str, Any]]:
        """The processes that ended, as {"job", "status", "result"}; waits at most `timeout` seconds for the first."""
        if self._server is None:
            time.sleep(timeout)
            return []
        try:
            messages = self._server.receive(timeout)
        except ServerGone as gone:
            raise self._lost(gone) from gone
        return [message for message in messages if message["event"] == "exit"]

    def close(self) -> None:
        """Processes that still run are asked to stop by the server, which goes on until they have saved."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _running_server(self) -> WorkerServer:
        if self._server is None:
            self._server = WorkerServer(self._log, *self._describe())
        return self._server

    def _lost(self, gone: ServerGone) -> Exception:
        """The exception to raise: `gone` itself when a new server would fare no better."""
        server, self._server = self._server, None
        was_ready = server is not None and server.ready
        if server is not None:
            server.close(0.0)
        self._deaths += 1
        return gone if not was_ready or self._deaths > MAX_DEATHS else ProcessesLost(gone.what)
