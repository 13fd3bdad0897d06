"""The Jobs API of a running cluster, which starts the drivers: a job is one attempt of a submission's driver.

Ray refuses a second job of the same id. So several commands can replace a lost driver at once, and one of them does.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from plat.dispatch.dispatcher import SchedulerError
from plat.dispatch.ray.ray_settings import AUTO, RaySettings
from plat.store.coordination.submissions import Submission
from plat.trainer.resources import Resources
from plat.units import counted

DRIVER = "plat.dispatch.ray.driver"  # unless the submission names another module as its "driver"
ANSWER_WITHIN = 60.0  # seconds
INHERITED = ("PYTHONPATH", "PLAT_", "HF_")  # variables that a driver and its trials get from the submitting command
MOST_NODES = 10_000  # that the State API is asked for; without a number it lists 100
_START_ONE = "start one (`ray start --head`), give the command on one of its nodes, or name another (cluster.address=)"
_NO_JOBS = (
    "start the head with its dashboard (`ray[default]` on every node), or leave the address out for a private Ray"
)
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Attempt:
    """The newest job of a submission: its number, whether it has ended, and what Ray says about it."""

    number: int
    has_ended: bool
    message: str


def job_id(submission: Submission, attempt: int) -> str:
    """Return the id of one attempt of a submission's driver, in Ray's words its submission id."""
    return f"{submission.name}-{attempt}"


def tune_folder(submission: Submission, attempt: int) -> Path:
    """Return the folder in which Tune has the experiment of one attempt, as soon as it has begun."""
    return submission.home.root / "ray" / job_id(submission, attempt)


class JobsClient:
    """The Jobs API and the nodes of the cluster at an address. Any method raises SchedulerError if none answers."""

    def __init__(self, settings: RaySettings) -> None:
        if settings.address != AUTO:
            _check_port(settings.address)
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")
        self._where = f"the address of the Ray cluster ({settings.address})"
        self._client, nodes = self._ask(lambda: _connected(settings.address), settings.connect_within)
        alive = [node for node in nodes if node.state == "ALIVE"]
        head = next((node.node_id for node in alive if node.is_head_node), "")
        address = settings.address
        if address == AUTO:
            address = self._client.get_address().rpartition("/")[2]
        self.cluster = Cluster(head, address, tuple(node.resources_total for node in alive), {})

    def attempts(self) -> dict[str, Attempt]:
        """Return the newest attempt of each submission that the cluster knows, by the submission's name."""
        attempts: dict[str, Attempt] = {}
        for job in self._ask(self._client.list_jobs):
            name, _, number = (job.submission_id or "").rpartition("-")
            if number.isdigit() and (name not in attempts or attempts[name].number < int(number)):
                attempts[name] = Attempt(int(number), job.status.is_terminal(), _last_line(job.message))
        return attempts

    def submit(self, submission: Submission, attempt: int) -> str:
        """Start a driver for a submission, or find the one that has this number; return the id of its job."""
        job = job_id(submission, attempt)
        program = [sys.executable, "-P", "-u", "-m", str(submission.facts().get("driver", DRIVER))]
        command = [*program, str(submission.root.absolute()), str(attempt)]
        variables = {name: value for name, value in os.environ.items() if name.startswith(INHERITED)}
        try:
            self._ask(
                lambda: self._client.submit_job(
                    entrypoint=shlex.join(command),
                    submission_id=job,
                    entrypoint_num_cpus=0,
                    runtime_env={"env_vars": variables},
                )
            )
        except SchedulerError as error:
            if "already exists" not in error.what:
                raise
        return job

    def _ask(self, question: Callable[[], Answer], within: float = ANSWER_WITHIN) -> Answer:
        """Return the answer. It is waited for in another thread, because Ray's client has no time limit."""
        answers: queue.SimpleQueue[tuple[Answer | None, Exception | None]] = queue.SimpleQueue()

        def work() -> None:
            try:
                answers.put((question(), None))
            except Exception as error:
                answers.put((None, error))

        threading.Thread(target=work, daemon=True).start()
        try:
            answer, error = answers.get(timeout=within)
        except queue.Empty:
            answer, error = None, TimeoutError(f"no answer within {within:.0f} s")
        if error is not None:
            if isinstance(error, ConnectionError) and "any running Ray" in str(error):
                raise SchedulerError(f"no Ray cluster answers at {AUTO}: there is none here", fix=_START_ONE) from error
            what = f"Ray's Jobs API does not answer: {type(error).__name__}: {' '.join(str(error).split())}"
            raise SchedulerError(what[:600], where=self._where, fix=_NO_JOBS) from error
        return answer  # type: ignore[return-value]


def _last_line(message: str | None) -> str:
    return ((message or "").strip().splitlines() or ["Ray does not say why"])[-1][:300]


def _connected(address: str) -> tuple[Any, list[Any]]:
    """Return the client of the Jobs API and the cluster's nodes."""
    with _without("RAY_ADDRESS"):  # it would come before the argument
        from ray.job_submission import JobSubmissionClient
        from ray.util.state import list_nodes

        client = JobSubmissionClient(address)
        return client, list_nodes(client.get_address(), limit=MOST_NODES)


@contextlib.contextmanager
def _without(name: str) -> Iterator[None]:
    value = os.environ.pop(name, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[name] = value


def _check_port(address: str) -> None:
    """Raise SchedulerError if nothing listens at the address; Ray itself would take minutes to report it."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=10.0):
            return
    except (OSError, UnicodeError) as error:  # UnicodeError: no name of a host
        raise SchedulerError(f"no Ray cluster answers at {address}: {error}", fix=_START_ONE) from error


# A Ray cluster: its nodes, and what can never run on them.

Node = Mapping[str, float]  # the resources of a node: "CPU", "GPU", and "memory" in bytes


@dataclass(frozen=True)
class Cluster:
    """A cluster as it was at the time of the connection.

    session  identifies the cluster (the id of its head node); differs from an earlier cluster at the same address
    address  HOST:PORT
    nodes    those that are alive
    owner    the process with which a private Ray ends; {} for a cluster
    """

    session: str
    address: str
    nodes: tuple[Node, ...]
    owner: Mapping[str, Any]

    def never_fits(self, needed: Resources) -> str:
        """Return the reason why the cluster can never execute a run with these needs; "" if it can.

        Compares GPUs, memory and the number of nodes. CPUs do not count: a run may ask for more threads than a node
        has.
        """
        if not any(node.get("GPU", 0.0) >= needed.gpus for node in self.nodes):
            most = max((node.get("GPU", 0.0) for node in self.nodes), default=0)
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
        most = sorted((node.get("CPU", 0.0) for node in self._able_nodes(needed)), reverse=True)
        return most[needed.nodes - 1] if len(most) >= needed.nodes else 1.0

    def request(self, needed: Resources, elastic: bool) -> dict[str, float]:
        """Return what a task requests on each of its "nodes", as Ray names it; `elastic`: all CPUs that it wants."""
        cpus = needed.threads if elastic else min(needed.threads, self.cpus_each(needed))
        return {"CPU": cpus, "GPU": needed.gpus, "memory": needed.memory_mb * 2**20, "nodes": needed.nodes}

    def room_for(self, needed: Sequence[Resources]) -> int:
        """Estimate how many runs fit at once, from CPUs alone; at least 1.

        Every run counts with the most threads and the most nodes that any of them asks for.
        """
        threads, most_nodes = max(each.threads for each in needed), max(each.nodes for each in needed)
        return max(1, sum(int(node.get("CPU", 0.0) // threads) for node in self.nodes) // most_nodes)

    def _able_nodes(self, needed: Resources) -> list[Node]:
        """Return the nodes with enough GPUs and memory; a run may request more threads than a node has CPUs."""
        memory = needed.memory_mb * 2**20
        return [
            each for each in self.nodes if each.get("GPU", 0.0) >= needed.gpus and each.get("memory", 0.0) >= memory
        ]


NOWHERE = Cluster("", "", (), {})  # before Ray has answered
