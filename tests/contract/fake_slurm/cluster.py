"""The tasks of the fake SLURM: real processes in a number of slots, and a clock that can be pushed forward."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


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

    @property
    def name(self) -> str:
        return f"{self.job.number}_{self.index}" if self.job.array else str(self.job.number)


class Cluster:
    """Starts tasks that wait, while a slot is free, and ends those that meet their time limit."""

    def __init__(self) -> None:
        self.elements: list[Element] = []
        self.slots = 2
        self.min_job_age = 300.0  # seconds for which squeue lists a task that has ended
        self._offset = 0.0

    def now(self) -> float:
        return time.monotonic() + self._offset

    def advance(self, seconds: float) -> None:
        self._offset += seconds

    def named(self, names: list[str]) -> list[Element]:
        return [e for e in self.elements if e.name in names or str(e.job.number) in names]

    def is_listed(self, element: Element) -> bool:
        return not element.ended or self.now() - element.ended < self.min_job_age

    def tick(self) -> None:
        for element in self.elements:
            if element.process is not None:
                self._watch(element)
        running = [e for e in self.elements if e.process is not None]
        for element in self.elements:
            if len(running) >= self.slots:
                return
            inside = sum(1 for e in running if e.job is element.job)
            if element.state == "PENDING" and element.process is None and inside < element.job.parallel:
                self._start(element)
                running.append(element)

    def _watch(self, element: Element) -> None:
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
        if not int(minutes or 0):
            return
        left = element.started + 60.0 * int(minutes) - self.now()
        if not element.warned and left <= float(ahead or 0):
            element.warned = True
            self.send(element, getattr(signal, f"SIG{name}"))
        elif left <= -5.0 and not element.ending:
            self.end(element, "TIMEOUT", signal.SIGKILL)

    def _start(self, element: Element) -> None:
        job = element.job
        output = job.options["output"].replace("%a", str(element.index)).replace("%A", str(job.number))
        environment = {
            **job.environment,
            "SLURM_JOB_ID": str(job.number + (10000 * (element.index + 1) if job.array else 0)),
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
