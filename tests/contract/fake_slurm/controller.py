"""A fake slurmctld: `python controller.py FOLDER`. Tasks are real processes; the clock can be pushed forward.

It answers the commands of `client.py` over a socket in FOLDER. What a test wants to go wrong it says in `faults`:

    errors        share of calls that fail with "Socket timed out", before (half of them) or after they were obeyed
    hang_sbatch   so many sbatch calls are obeyed and never answered
    lose_sbatch   so many sbatch calls are neither obeyed nor answered
    refuse        what sbatch says instead of accepting a job; "" to accept
    accounting    "on", "off" (sacct fails), or "late" (what ended in the last `late` seconds is not there)
    requeue       whether tasks of a failed node are requeued
"""

from __future__ import annotations

import json
import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TICK = 0.03


@dataclass
class Job:
    """One sbatch."""

    number: int
    name: str
    comment: str
    script: str
    environment: dict[str, str]
    folder: str
    options: dict[str, str]
    array: bool
    parallel: int


@dataclass
class Element:
    """A task of an array, or a job that is none (index 0)."""

    job: Job
    index: int
    state: str = "PENDING"
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    started: float = 0.0
    ended: float = 0.0
    warned: bool = False
    ending: str = ""
    starts: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.job.number}_{self.index}" if self.job.array else str(self.job.number)


class Controller:
    def __init__(self, folder: Path) -> None:
        self.elements: list[Element] = []
        self.calls: Counter[str] = Counter()
        self.faults: dict[str, Any] = {"errors": 0.0, "accounting": "on", "late": 0.0, "requeue": True, "refuse": ""}
        self.slots, self.max_array_size, self.min_job_age = 2, 1001, 300.0
        self.number, self.offset = 100, 0.0
        self.hanging: list[socket.socket] = []
        self.random = random.Random(1)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / "socket"))
        self.listener.listen(100)

    def now(self) -> float:
        return time.monotonic() + self.offset

    def serve(self) -> None:
        while True:
            ready, _, _ = select.select([self.listener], [], [], TICK)
            if ready:
                connection, _ = self.listener.accept()
                self.answer(connection)
            self.tick()

    def answer(self, connection: socket.socket) -> None:
        with connection.makefile("r") as lines:
            request = json.loads(lines.readline())
        command = request["command"]
        if command == "test":
            reply = {"out": json.dumps(getattr(self, "test_" + request["what"])(*request["arguments"])), "code": 0}
        else:
            self.calls[command] += 1
            fails = self.random.random() < self.faults["errors"]
            reply = {"code": 1, "error": f"{command}: error: Socket timed out on send/recv operation"}
            if command == "sbatch" and self.faults.get("lose_sbatch", 0) > 0:
                self.faults["lose_sbatch"] -= 1
                self.hanging.append(connection)
                return
            if not fails or self.random.random() < 0.5:
                obeyed = getattr(self, "do_" + command)(request)
                reply = reply if fails else obeyed
            if command == "sbatch" and self.faults.get("hang_sbatch", 0) > 0:
                self.faults["hang_sbatch"] -= 1
                self.hanging.append(connection)
                return
        try:
            connection.sendall(json.dumps(reply).encode() + b"\n")
        except OSError:
            pass  # the client was killed
        connection.close()

    # --- the commands ---------------------------------------------------------------------------------------------

    def do_sbatch(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.faults["refuse"]:
            return {"code": 1, "error": f"sbatch: error: Batch job submission failed: {self.faults['refuse']}"}
        script = request["arguments"][-1]
        options = {}
        for line in Path(script).read_text().splitlines():
            if matched := re.match(r"#SBATCH --([\w-]+)(?:=(.*))?", line):
                options[matched[1]] = (matched[2] or "").strip("'")
        span, _, parallel = options.get("array", "").partition("%")
        first, _, last = span.partition("-")
        count = int(last) - int(first) + 1 if last else 1
        if count > self.max_array_size:
            return {"code": 1, "error": "sbatch: error: Batch job submission failed: Invalid job array specification"}
        self.number += 1
        job = Job(
            self.number,
            options["job-name"],
            options.get("comment", ""),
            script,
            request["environment"],
            request["folder"],
            options,
            bool(span),
            int(parallel or count),
        )
        self.elements += [Element(job, index) for index in range(count)]
        return {"code": 0, "out": f"{self.number}\n"}

    def do_squeue(self, request: dict[str, Any]) -> dict[str, Any]:
        arguments = request["arguments"]
        names = arguments[arguments.index("--name") + 1].split(",") if "--name" in arguments else None
        listed = [e for e in self.elements if self.is_listed(e) and (names is None or e.job.name in names)]
        lines = [self.line(e, str(e.index)) for e in listed if e.state != "PENDING"]
        for job in {id(e.job): e.job for e in listed}.values():
            waiting = [e for e in listed if e.job is job and e.state == "PENDING"]
            if waiting:
                lines.append(self.line(waiting[0], expression([e.index for e in waiting], job.parallel)))
        return {"code": 0, "out": "".join(f"{line}\n" for line in lines)}

    def line(self, element: Element, index: str) -> str:
        job = element.job
        return "|".join([str(job.number), index if job.array else "N/A", element.state, job.name, "None", job.comment])

    def is_listed(self, element: Element) -> bool:
        return not element.ended or self.now() - element.ended < self.min_job_age

    def do_sacct(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.faults["accounting"] == "off":
            return {"code": 1, "error": "Slurm accounting storage is disabled"}
        names = request["arguments"][request["arguments"].index("--name") + 1].split(",")
        late = self.faults["late"] if self.faults["accounting"] == "late" else 0.0
        ended = [e for e in self.elements if e.ended and e.job.name in names and self.now() - e.ended >= late]
        return {"code": 0, "out": "".join(f"{e.job.name}|{e.name}|{e.state} by 0\n" for e in ended)}

    def do_scancel(self, request: dict[str, Any]) -> dict[str, Any]:
        arguments = request["arguments"]
        number = next((a.partition("=")[2] for a in arguments if a.startswith("--signal")), "")
        for element in self.named([a for a in arguments if not a.startswith("-")]):
            if number:
                self.send(element, getattr(signal, f"SIG{number}"))
            elif element.state == "PENDING":
                element.state, element.ended = "CANCELLED", self.now()
            elif not element.ended:
                self.end(element, "CANCELLED")
        return {"code": 0, "out": ""}

    def do_scontrol(self, request: dict[str, Any]) -> dict[str, Any]:
        arguments = request["arguments"]
        if arguments[:2] == ["show", "config"]:
            return {"code": 0, "out": f"ClusterName = fake\nMaxArraySize            = {self.max_array_size}\n"}
        if arguments[0] == "requeue":
            for element in self.named(arguments[1:]):
                self.end(element, "PENDING")
            return {"code": 0, "out": ""}
        return {"code": 1, "error": "scontrol: error: not known here"}

    def do_sinfo(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"code": 0, "out": "low* up infinite 1 idle node1\n"}

    def named(self, names: list[str]) -> list[Element]:
        return [e for e in self.elements if e.name in names or str(e.job.number) in names]

    # --- what a test asks for -------------------------------------------------------------------------------------

    def test_set(self, values: dict[str, Any]) -> None:
        for key, value in values.items():
            if key in ("slots", "max_array_size", "min_job_age"):
                setattr(self, key, value)
            else:
                self.faults[key] = value

    def test_calls(self) -> dict[str, int]:
        return dict(self.calls)

    def test_advance(self, seconds: float) -> None:
        self.offset += seconds

    def test_tasks(self) -> list[dict[str, Any]]:
        keys = ("index", "state", "restarts")
        return [
            {"job": e.job.number, "job_name": e.job.name, "name": e.name, **{key: getattr(e, key) for key in keys}}
            for e in self.elements
        ]

    def test_fail_node(self, name: str) -> None:
        """The node of a task goes down: every process of the task is gone at once."""
        for element in self.named([name]):
            self.end(element, "PENDING" if self.faults["requeue"] else "NODE_FAIL", signal.SIGKILL)

    def test_stop(self) -> None:
        for element in self.elements:
            if element.process is not None:
                kill_session(element.process.pid)
        os._exit(0)

    # --- time goes on ---------------------------------------------------------------------------------------------

    def tick(self) -> None:
        for element in self.elements:
            if element.process is not None:
                self.watch(element)
        running = [e for e in self.elements if e.process is not None]
        for element in self.elements:
            if len(running) >= self.slots:
                return
            inside = sum(1 for e in running if e.job is element.job)
            if element.state == "PENDING" and element.process is None and inside < element.job.parallel:
                self.start(element)
                running.append(element)

    def watch(self, element: Element) -> None:
        assert element.process is not None
        code = element.process.poll()
        if code is not None:
            kill_session(element.process.pid)  # as a cluster does, whatever the batch shell has left behind
            element.process = None
            element.state = element.ending or ("COMPLETED" if code == 0 else "FAILED")
            if element.state == "PENDING":
                element.restarts += 1
            else:
                element.ended = self.now()
            element.ending = ""
            return
        minutes = element.job.options.get("time")
        name, _, ahead = element.job.options.get("signal", "").rpartition(":")[2].partition("@")
        if minutes is None:
            return
        left = element.started + 60.0 * int(minutes) - self.now()
        if not element.warned and left <= float(ahead or 0):
            element.warned = True
            self.send(element, getattr(signal, f"SIG{name}"))
        elif left <= -5.0 and not element.ending:
            self.end(element, "TIMEOUT", signal.SIGKILL)

    def start(self, element: Element) -> None:
        job = element.job
        output = job.options["output"].replace("%a", str(element.index)).replace("%A", str(job.number))
        environment = {
            **job.environment,
            "SLURM_JOB_ID": str(job.number + 10000 * (element.index + 1)),
            "SLURM_CLUSTER_NAME": "fake",
            **({"SLURM_RESTART_COUNT": str(element.restarts)} if element.restarts else {}),
        }
        if job.array:
            environment |= {"SLURM_ARRAY_JOB_ID": str(job.number), "SLURM_ARRAY_TASK_ID": str(element.index)}
        with open(output, "ab") as file:
            element.process = subprocess.Popen(
                ["bash", job.script],
                cwd=job.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        element.state, element.warned, element.ending = "RUNNING", False, ""
        element.started = self.now()

    def send(self, element: Element, number: int) -> None:
        """A signal to the batch shell, which our script has replaced by the task."""
        if element.process is not None:
            os.kill(element.process.pid, number)

    def end(self, element: Element, state: str, number: int = signal.SIGTERM) -> None:
        """End a task's processes; the state is set when they are gone."""
        if element.process is None:
            if state == "PENDING":
                element.state, element.ended, element.restarts = state, 0.0, element.restarts + 1
            return
        element.ending = state
        if number == signal.SIGKILL:
            kill_session(element.process.pid)
        else:
            os.kill(element.process.pid, number)


def expression(indices: list[int], parallel: int) -> str:
    """As squeue prints it: "4-7,9%2"."""
    spans: list[list[int]] = []
    for index in sorted(indices):
        if spans and index == spans[-1][1] + 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in spans) + f"%{parallel}"


def kill_session(session: int) -> None:
    """End every process of a session, whatever process group it is in."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    os.kill(int(entry.name), signal.SIGKILL)
            except (OSError, IndexError):
                continue


if __name__ == "__main__":
    Controller(Path(sys.argv[1])).serve()
