"""A fake slurmctld: `python controller.py FOLDER`. Tasks are real processes; the clock can be pushed forward.

It answers the commands of `client.py` over a socket in FOLDER. What a test wants to go wrong it says in `faults`:

    errors        share of calls that fail with "Socket timed out", before (half of them) or after they were obeyed
    hang_sbatch   so many sbatch calls are obeyed and never answered
    lose_sbatch   so many sbatch calls are neither obeyed nor answered
    refuse        what sbatch says instead of accepting a job; "" to accept
    accounting    "on", "off" (sacct fails), or "late" (what ended in the last `late` seconds is not there)
    says          {command: text}: what it says on success, instead of its answer, for which a "%" stands in the text
    hidden        the user whose jobs are not shown to others, as the site's PrivateData says; "" for nobody
    requeue       whether tasks of a failed node are requeued
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from cluster import Cluster, kill_session
from commands import Commands, Reply

TICK = 0.03


class Controller:
    """Listens on a socket for commands, and for what a test wants to happen (`test_...`)."""

    def __init__(self, folder: Path) -> None:
        self.calls: Counter[str] = Counter()
        self.faults: dict[str, Any] = {"errors": 0.0, "accounting": "on", "late": 0.0, "requeue": True}
        self.faults |= {"refuse": "", "hidden": "", "says": {}}
        self.cluster = Cluster()
        self.commands = Commands(self.cluster, self.faults)
        self.hanging: list[socket.socket] = []
        self.random = random.Random(1)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / "socket"))
        self.listener.listen(100)

    def serve(self) -> None:
        """Until `test_stop`, or until the test that started it is gone."""
        parent = os.getppid()
        while os.getppid() == parent:
            ready, _, _ = select.select([self.listener], [], [], TICK)
            if ready:
                connection, _ = self.listener.accept()
                self.answer(connection)
            self.cluster.tick()
        self.test_stop()

    def answer(self, connection: socket.socket) -> None:
        with connection.makefile("r") as lines:
            request = json.loads(lines.readline())
        reply = self._test_reply(request) if request["command"] == "test" else self._reply(request)
        if reply is None:
            self.hanging.append(connection)
            return
        try:
            connection.sendall(json.dumps(reply).encode() + b"\n")
        except OSError:
            pass  # the client was killed
        connection.close()

    def _test_reply(self, request: dict[str, Any]) -> Reply:
        result = getattr(self, "test_" + request["what"])(*request["arguments"])
        return {"out": json.dumps(result), "code": 0}

    def _reply(self, request: dict[str, Any]) -> Reply | None:
        """Obey a command, or go wrong as asked for; None when it is never answered."""
        command = request["command"]
        self.calls[command] += 1
        if command == "sbatch" and self._use_up("lose_sbatch"):
            return None
        fails = self.random.random() < self.faults["errors"]
        reply: Reply = {"code": 1, "error": f"{command}: error: Socket timed out on send/recv operation"}
        if not fails or self.random.random() < 0.5:
            obeyed = getattr(self.commands, command)(request)
            if obeyed["code"] == 0 and command in self.faults["says"]:
                obeyed = {**obeyed, "out": self.faults["says"][command].replace("%", obeyed["out"])}
            reply = reply if fails else obeyed
        return None if command == "sbatch" and self._use_up("hang_sbatch") else reply

    def _use_up(self, fault: str) -> bool:
        """Whether a fault that happens so many times is to happen now."""
        left = self.faults.get(fault, 0)
        self.faults[fault] = max(0, left - 1)
        return left > 0

    def test_set(self, values: dict[str, Any]) -> None:
        for key, value in values.items():
            if key in ("slots", "min_job_age"):
                setattr(self.cluster, key, value)
            elif key == "max_array_size":
                self.commands.max_array_size = value
            elif key == "cluster_name":
                self.commands.cluster_name = value
            else:
                self.faults[key] = value

    def test_calls(self) -> dict[str, int]:
        return dict(self.calls)

    def test_advance(self, seconds: float) -> None:
        self.cluster.advance(seconds)

    def test_tasks(self) -> list[dict[str, Any]]:
        keys = ("index", "state", "restarts")
        return [
            {"job": e.job.number, "job_name": e.job.name, "name": e.name, **{key: getattr(e, key) for key in keys}}
            for e in self.cluster.elements
        ]

    def test_fail_node(self, name: str) -> None:
        """The node of a task goes down: every process of the task is gone at once."""
        for element in self.cluster.named([name]):
            self.cluster.end(element, "PENDING" if self.faults["requeue"] else "NODE_FAIL", signal.SIGKILL)

    def test_stop(self) -> None:
        for element in self.cluster.elements:
            if element.process is not None:
                kill_session(element.process.pid)
        os._exit(0)


if __name__ == "__main__":
    Controller(Path(sys.argv[1])).serve()
