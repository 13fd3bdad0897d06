"""Client of the bridge to Ray: starts it, sends requests, and explains failures. For one thread only."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.dispatch.dispatcher import SchedulerError
from plat.dispatch.ray.ray_settings import AUTO, RaySettings
from plat.trainer.resources import Resources
from plat.units import counted

ANSWER_WITHIN = 60.0  # seconds, for everything but connecting and starting
START_WITHIN = 600.0
_START_ONE = "start one (`ray start --head`), give the command on one of its nodes, or name another (cluster.address=)"
_NO_CLUSTER = ("Failed to connect", "any running Ray", "timed out", "does not answer", "ConnectionError", "unreachable")


@dataclass(frozen=True)
class Node:
    """The resources of one node: CPUs, GPUs, and bytes of memory."""

    cpus: float
    gpus: float
    memory: float


@dataclass(frozen=True)
class Cluster:
    """A cluster as it was at the time of the connection.

    session  identifies the cluster; differs from an earlier one at the same address
    address  HOST:PORT
    owner    the process with which a private Ray ends
    """

    session: str
    address: str
    owner: dict[str, Any]
    nodes: tuple[Node, ...]

    def never_fits(self, needed: Resources) -> str:
        """Return the reason why the cluster can never execute a run with these needs; "" if it can.

        Compares GPUs, memory and the number of nodes. CPUs do not count: a run may ask for more threads than a node
        has.
        """
        if not any(node.gpus >= needed.gpus for node in self.nodes):
            most = max((node.gpus for node in self.nodes), default=0)
            return f"it asks for {counted(needed.gpus, 'GPU')}, and no node of the Ray cluster has more than {most:g}"
        able = len(self._able_nodes(needed))
        if not able:
            return f"it asks for {needed.memory_mb} MiB of memory, and no node of the Ray cluster has that much"
        if able < needed.nodes:
            return f"it asks for {needed.nodes} nodes, and only {able} of the Ray cluster can take a part of it"
        return ""

    def cpus_each(self, needed: Resources) -> float:
        """Return the most CPUs that a run can have on each of its `needed.nodes` nodes.

        Returns 1 if fewer nodes have its GPUs and memory.
        """
        most = sorted((node.cpus for node in self._able_nodes(needed)), reverse=True)
        return most[needed.nodes - 1] if len(most) >= needed.nodes else 1.0

    def room_for(self, needed: Sequence[Resources]) -> int:
        """Estimate how many runs fit at once, from CPUs alone; at least 1.

        Every run counts with the most threads and the most nodes that any of them asks for.
        """
        threads, most_nodes = max(each.threads for each in needed), max(each.nodes for each in needed)
        return max(1, sum(int(node.cpus // threads) for node in self.nodes) // most_nodes)

    def _able_nodes(self, needed: Resources) -> list[Node]:
        """Return the nodes with enough GPUs and memory; a run may request more threads than a node has CPUs."""
        return [node for node in self.nodes if node.gpus >= needed.gpus and node.memory >= needed.memory_mb * 2**20]


class RayClient:
    """A connection to a cluster, or to a private Ray started for it on this machine.

    Any method may raise SchedulerError if Ray does not answer; then `close` it. `log` collects the output of Ray.
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
        nodes = tuple(Node(**node) for node in facts["nodes"])
        self.cluster = Cluster(facts["session"], facts["address"], facts["owner"], nodes)

    def names(self) -> set[str]:
        """Return the names of our actors that wait, run or restart."""
        return set(self._ask("names")["names"])

    def start(self, tasks: list[dict[str, Any]]) -> None:
        """Start actors (see `bridge.Bridge.start`)."""
        self._ask("start", timeout=START_WITHIN, tasks=tasks)

    def end(self, names: list[str], *, at_once: bool) -> None:
        """End actors at once, or ask them to let their runs save and stop."""
        self._ask("kill" if at_once else "stop", names=names)

    def close(self, patience: float = 60.0) -> None:
        """Close the connection and wait at most `patience` seconds; the bridge ends after its runs have saved."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return  # it ends after its runs have saved

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


def _check_port(address: str) -> None:
    """Raise SchedulerError if nothing listens at the address; Ray itself would take minutes to report it."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=10.0):
            return
    except OSError as error:
        raise SchedulerError(f"no Ray cluster answers at {address}: {error}", fix=_START_ONE) from error


def _in_words(error: SchedulerError, settings: RaySettings, log: Path) -> SchedulerError:
    """Return an error that explains why the connection failed, and how to fix it."""
    if settings.is_local:
        what, fix = "Ray did not start on this machine", "the log says why; `ray start --head` tries it by hand"
    elif any(word in error.what for word in _NO_CLUSTER):
        what = f"no Ray cluster answers at {settings.address}"
        fix = (
            "start one there (`ray start --head`), run this on one of its nodes, or name another with cluster.address="
        )
    else:
        what, fix = f"the Ray cluster at {settings.address} refuses us", "the log says why"
    return SchedulerError(f"{what}: {error.what.removeprefix('Ray: ')}", where=str(log), fix=fix)
