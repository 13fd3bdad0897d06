"""Our end of the bridge to Ray: starts it, asks, and says in plain words what went wrong. For one thread only."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.dispatch.api import SchedulerError
from plat.dispatch.ray.settings import AUTO, RaySettings

ANSWER_WITHIN = 60.0  # seconds, for everything but connecting and starting
START_WITHIN = 600.0
_START_ONE = "start one (`ray start --head`), give the command on one of its nodes, or name another (cluster.address=)"
_NO_CLUSTER = ("Failed to connect", "any running Ray", "timed out", "does not answer", "ConnectionError", "unreachable")


@dataclass(frozen=True)
class Node:
    """What one node has: CPUs, GPUs, and bytes of memory."""

    cpus: float
    gpus: float
    memory: float


@dataclass(frozen=True)
class Cluster:
    """A cluster as it was when we connected.

    session  tells it from every other cluster, and from an earlier one at the same address
    address  HOST:PORT
    owner    the process with which a Ray of our own ends
    """

    session: str
    address: str
    owner: dict[str, Any]
    nodes: tuple[Node, ...]


class RayClient:
    """A connection to a cluster, or to a Ray that was started for it on this machine.

    SchedulerError, from any method, when Ray does not answer; `close` it then. `log` has what Ray printed.
    """

    def __init__(self, settings: RaySettings, log: Path) -> None:
        self._log = log
        self._buffer = b""
        if not settings.is_local and settings.address != AUTO:
            _check_port(settings.address)
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-u", "-m", "plat.dispatch.ray.bridge"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={"RAY_BACKEND_LOG_LEVEL": "error", **os.environ, "PYTHONWARNINGS": "ignore"},
                start_new_session=True,
            )
        within = settings.connect_within
        try:
            facts = self._ask("connect", timeout=within + 10, address=settings.address, within=within)
        except SchedulerError as error:
            self._process.kill()
            self.close()
            raise _in_words(error, settings, log) from error
        self.cluster = Cluster(facts["session"], facts["address"], facts["owner"], _nodes(facts))

    def nodes(self) -> tuple[Node, ...]:
        """The nodes that are alive now."""
        return _nodes(self._ask("nodes"))

    def names(self) -> set[str]:
        """The names of our actors that wait, run or are being started again."""
        return set(self._ask("names")["names"])

    def start(self, tasks: list[dict[str, Any]]) -> None:
        """Start actors (see `bridge.Bridge.start`)."""
        self._ask("start", timeout=START_WITHIN, tasks=tasks)

    def stop(self, names: list[str]) -> None:
        """Ask actors to let their runs save and stop."""
        self._ask("stop", names=names)

    def kill(self, names: list[str]) -> None:
        """End actors at once."""
        self._ask("kill", names=names)

    def close(self, patience: float = 60.0) -> None:
        """Close the line. A Ray of our own is ended by the bridge, which waits for its runs to save, longer than we
        wait for it, if need be."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return  # it ends by itself

    def _ask(self, operation: str, timeout: float = ANSWER_WITHIN, **arguments: Any) -> dict[str, Any]:
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"op": operation, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._line(timeout))
        except (OSError, ValueError) as error:
            self._process.kill()
            raise SchedulerError(f"Ray does not answer ({error})", where=str(self._log)) from error
        if "error" in answer:
            raise SchedulerError(f"Ray: {answer['error']}"[:600], where=str(self._log))
        return answer

    def _line(self, timeout: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            if not select.select([descriptor], [], [], timeout)[0]:
                raise TimeoutError(f"not for {timeout:.0f} s")
            data = os.read(descriptor, 1 << 16)
            if not data:
                raise ConnectionError("its client has ended")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


def _nodes(facts: dict[str, Any]) -> tuple[Node, ...]:
    return tuple(Node(**node) for node in facts["nodes"])


def _check_port(address: str) -> None:
    """SchedulerError when nothing listens there, which Ray itself would take minutes to say."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=10.0):
            return
    except OSError as error:
        raise SchedulerError(f"no Ray cluster answers at {address}: {error}", mend=_START_ONE) from error


def _in_words(error: SchedulerError, settings: RaySettings, log: Path) -> SchedulerError:
    """Why we could not connect, and what to do about it."""
    if settings.is_local:
        what, mend = "Ray did not start on this machine", "the log says why; `ray start --head` tries it by hand"
    elif any(word in error.what for word in _NO_CLUSTER):
        what = f"no Ray cluster answers at {settings.address}"
        mend = (
            "start one there (`ray start --head`), run this on one of its nodes, or name another with cluster.address="
        )
    else:
        what, mend = f"the Ray cluster at {settings.address} refuses us", "the log says why"
    return SchedulerError(f"{what}: {error.what.removeprefix('Ray: ')}", where=str(log), mend=mend)
