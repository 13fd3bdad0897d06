"""A real Ray of several nodes on this machine: each node is a `ray start --block`, in a process group of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STARTED = "Ray runtime started"
TRIES = 3
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}  # of every node, and of who asks them
RUNNING = "PLAT_TEST_RAY"  # the address of a cluster that runs already, for whoever runs these tests often


class RayCluster:
    """A head with two CPUs, and further nodes. `address` is what `cluster.address=` takes."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="plat-test-ray-", dir="/tmp"))  # names of sockets must be short
        self._nodes: list[subprocess.Popen[bytes]] = []
        self.address = os.environ.get(RUNNING, "")
        if not self.address:
            port = _free_port()
            web = (f"--dashboard-port={_free_port()}", "--include-dashboard=true")
            self.add_node(2, "--head", f"--port={port}", f"--temp-dir={self._folder}", *web)
            self.address = re.findall(r"--address='([^']+)'", self._log(len(self._nodes) - 1).read_text())[0]
            self.add_node(2)

    def add_node(self, cpus: int, *options: str) -> int:
        """Start a node and wait until it has joined; its number, for `kill_node`.

        Ray gives a node's helpers 15 s to start, which a busy machine may not keep: it is tried again then.
        """
        options = options or (f"--address={self.address}",)
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", f"--num-cpus={cpus}"]
        command += ["--object-store-memory=80000000", "--include-log-monitor=false", *options]
        command += [f"--dashboard-agent-listen-port={_free_port()}"]  # the nodes share a machine
        for _ in range(TRIES):
            if self._starts(command):
                return len(self._nodes) - 1
        raise AssertionError(self._log(len(self._nodes) - 1).read_text(errors="replace"))

    def _starts(self, command: list[str]) -> bool:
        log = self._log(len(self._nodes))
        with open(log, "wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, **ENVIRONMENT},
            )
        self._nodes.append(process)
        until = time.monotonic() + 300
        while STARTED not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > until:
                return False
            time.sleep(0.2)
        return True

    def kill_node(self, number: int) -> None:
        """SIGKILL for a node's raylet, as when its machine is lost; Ray's processes on it notice by themselves."""
        children = _children(self._nodes[number].pid)
        for pid in children:
            if "raylet" in _name(pid):
                os.kill(pid, signal.SIGKILL)

    def down(self) -> None:
        for process in reversed(self._nodes):
            if process.poll() is None:
                process.terminate()
        for process in self._nodes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _log(self, number: int) -> Path:
        return self._folder / f"node-{number}.txt"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()


def on_ray(cluster: RayCluster) -> tuple[str, ...]:
    """The settings with which a test uses this cluster."""
    return ("cluster.refresh=0.3", f"cluster.address={cluster.address}")
