"""SLURM's commands: called with a time limit, their output read, their failures classified.

Nothing here decides what a failure means for a run. `sbatch` that fails or takes too long may have been obeyed all the
same (`SchedulerError.certain` is False); a question that cannot be answered raises, and never looks like the answer
"there is no such job".
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plat.dispatch.api import SchedulerError
from plat.dispatch.schedulers import TaskState
from plat.dispatch.slurm.states import task_state, unknown

UNREADABLE = -1  # the index of tasks that are listed in a way that is not understood
NAMES_AT_ONCE = 300  # job names in one call
# What sbatch says when it is not known whether the job was accepted; whatever else it says is a refusal.
_IN_DOUBT = re.compile(
    r"time[d-]? ?out|socket|contact|connect|transport|zero bytes|communicat|network|no route|broken pipe|"
    r"controller|standby|unexpected m|authenticat|credential",
    re.I,
)
# Refusals that pass with time: a limit on the number of jobs.
_LIMIT = re.compile(r"MaxSubmit|MaxJob|SubmitJob|job submit limit|temporarily un|too many", re.I)


@dataclass(frozen=True)
class ListedTask:
    """A job, or an element of a job array, as SLURM lists it. `index` is 0 for a job that is no array."""

    name: str
    job_id: str
    index: int
    state: TaskState
    reason: str
    comment: str


@dataclass(frozen=True)
class Site:
    """What a cluster says of itself."""

    cluster: str
    max_array_size: int
    hides_jobs: bool  # users are not shown the jobs of others


class Slurm:
    """The commands of the SLURM that this machine talks to. `timeout` is in seconds, for each call."""

    def __init__(self, timeout: float = 60.0) -> None:
        self._timeout = timeout
        self._site: Site | None = None

    def site(self) -> Site:
        """Name, limits and rules of the cluster, asked for once."""
        if self._site is None:
            facts = dict(re.findall(r"^\s*(\w+)\s*=\s*(.*?)\s*$", self._ask("scontrol", "show", "config"), re.M))
            size = facts.get("MaxArraySize", "")
            hides_jobs = "jobs" in facts.get("PrivateData", "")
            name = facts.get("ClusterName", "") or "slurm"
            self._site = Site(name, int(size) if size.isdigit() else 1001, hides_jobs)
        return self._site

    def submit(self, script: str, kept_open: Sequence[int] = ()) -> str:
        """Submit a batch script; the job's number. `kept_open` are file descriptors that sbatch holds while it runs."""
        output = self._ask("sbatch", "--parsable", script, kept_open=kept_open)
        number = re.match(r"\s*(\d+)", output)
        if number is None:
            raise SchedulerError(f"sbatch said {output.strip()[:200]!r} instead of a job number", where=script)
        return number[1]

    def tasks(self, names: Sequence[str]) -> list[ListedTask]:
        """Every task of the jobs of these names that SLURM still knows, those that ended a short while ago included."""
        question = ["--noheader", "--states=all", "--format=%F|%K|%T|%j|%r|%k", "--name"]
        listed = "".join(self._ask("squeue", *question, ",".join(portion)) for portion in _portions(names))
        wanted = set(names)
        return [task for line in listed.splitlines() for task in _read_task(line) if task.name in wanted]

    def ended(self, names: Sequence[str]) -> dict[tuple[str, int], TaskState]:
        """How tasks ended that squeue lists no more, by job name and index; empty where there is no accounting."""
        question = ["-X", "-n", "-P", "-S", "now-30days", "--format=JobName%60,JobID%60,State%30", "--name"]
        try:
            listed = "".join(self._ask("sacct", *question, ",".join(portion)) for portion in _portions(names))
        except SchedulerError:
            return {}
        ends: dict[tuple[str, int], TaskState] = {}
        for line in listed.splitlines():
            name, _, rest = line.partition("|")
            number, _, state = rest.partition("|")
            with contextlib.suppress(ValueError):
                for index in indices(number.partition("_")[2]):
                    ends[name, index] = task_state(state)
        return ends

    def cancel(self, jobs: Sequence[str]) -> None:
        """End jobs or array elements ("12_3") for good; those that are gone already are no error."""
        for portion in _portions(jobs):
            self._ask("scancel", "--quiet", *portion)

    def requeue(self, job: str) -> None:
        """Put a job (the one that asks, as a rule) back into the queue."""
        self._ask("scontrol", "requeue", job)

    def _ask(self, command: str, *arguments: str, kept_open: Sequence[int] = ()) -> str:
        if shutil.which(command) is None:
            raise SchedulerError(
                f"there is no {command} here, so this machine cannot talk to SLURM",
                certain=True,
                where=f"PATH={os.environ.get('PATH', '')[:200]}",
                mend="log in to a node of the cluster that has SLURM's commands, or leave --on slurm out",
            )
        with _started([command, *arguments], kept_open) as process:
            try:
                output, errors = process.communicate(timeout=self._timeout)
            except subprocess.TimeoutExpired as late:
                raise SchedulerError(f"{command} has not answered for {self._timeout:.0f} s") from late
        if process.returncode == 0:
            return output
        message = " ".join((errors or output).split())[:400]
        refused = command == "sbatch" and is_refusal(message)
        what = f"{command} failed: {message or f'exit code {process.returncode}'}"
        raise SchedulerError(
            what,
            certain=refused,
            passes=refused and _LIMIT.search(message) is not None,
            where=shlex.join([command, *arguments])[:200],
            mend="mend what SLURM says there; where there is no SLURM, leave --on slurm out",
        )


def is_refusal(message: str) -> bool:
    """Whether the message of a failed sbatch means that the job was certainly not accepted."""
    return bool(message) and _IN_DOUBT.search(message) is None


def _portions(names: Sequence[str]) -> list[Sequence[str]]:
    """As many names at a time as one command takes."""
    return [names[start : start + NAMES_AT_ONCE] for start in range(0, len(names), NAMES_AT_ONCE)]


@contextlib.contextmanager
def _started(command: list[str], kept_open: Sequence[int]) -> Iterator[subprocess.Popen[str]]:
    """A command in a session of its own, so that a Ctrl-C of the user does not end it half done; killed in the end."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SQUEUE_", "SACCT_"))}
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        pass_fds=list(kept_open),
        start_new_session=True,
        env={**environment, "SLURM_BITSTR_LEN": "0"},  # array expressions of any length
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _read_task(line: str) -> list[ListedTask]:
    """The tasks of one line of squeue; where the indices are not understood, one UNREADABLE and of unknown state."""
    parts = line.split("|", 5)
    if len(parts) != 6:
        return []
    number, expression, state, name, reason, comment = (part.strip() for part in parts)
    try:
        return [ListedTask(name, number, index, task_state(state), reason, comment) for index in indices(expression)]
    except ValueError:
        return [ListedTask(name, number, UNREADABLE, unknown(state), reason, comment)]


def indices(expression: str) -> list[int]:
    """The indices of an array expression, as squeue and sacct print them.

    "7", "4-7%2", "[1,3-5]", "0-8:2"; "N/A" or "" of a job that is no array is index 0. ValueError for anything else.
    """
    text = expression.strip().strip("[]").partition("%")[0].strip("[]")
    if text in ("", "N/A"):
        return [0]
    numbers: list[int] = []
    for part in text.split(","):
        span, _, step = part.partition(":")
        first, dash, last = span.partition("-")
        numbers += range(int(first), int(last) + 1, int(step or 1)) if dash else [int(first)]
    return numbers
