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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from plat.dispatch.dispatcher import SchedulerError
from plat.dispatch.ray.cluster import Cluster
from plat.dispatch.ray.ray_settings import AUTO, RaySettings
from plat.store.coordination.submissions import Submission

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
