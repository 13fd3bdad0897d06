"""Call SLURM's commands with a time limit, read their output, and classify their failures.

A failed or late `sbatch` may still have submitted the job (`SchedulerError.certain` is False). A query that cannot be
answered raises; it never looks like the answer "there is no such job".
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from plat.dispatch.dispatcher import SchedulerError
from plat.dispatch.setting import OVER, PENDING, RUNNING, UNKNOWN, TaskState
from plat.words.outcomes import CANCELLED, failed

NO_SLURM = "fix what SLURM says there; where there is no SLURM, leave --on slurm out"
LATER = "give the command again later; where SLURM is slow, raise command_timeout in the profile"
LIST = "|STATE|NAME"  # the end of the line above squeue's list, which is there even if the list is empty
UNREADABLE = -1  # the index of a task whose listed indices cannot be read
NAMES_AT_ONCE = 300  # job names in one call
# Messages of sbatch after which the job may have been accepted; any other message is a refusal.
_IN_DOUBT = re.compile(
    r"time[d-]? ?out|socket|contact|connect|transport|zero bytes|communicat|network|no route|broken pipe|"
    r"controller|standby|unexpected m|authenticat|credential",
    re.I,
)
# Refusals that pass with time: a limit on the number of jobs.
_LIMIT = re.compile(r"MaxSubmit|MaxJob|SubmitJob|job submit limit|temporarily un|too many", re.I)

# SLURM's words for states. Sites and versions define further ones: an unknown word means unknown, never dead.
_PHASES = {
    **dict.fromkeys(("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"), PENDING),
    **dict.fromkeys(
        ("RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT",
         "POWER_UP_NODE", "UPDATE_DB"),
        RUNNING,
    ),
}  # fmt: skip
# The outcome of runs that recorded none, by the state of their ended task; None: no outcome follows from it.
_OVER = {
    "COMPLETED": None,
    "CANCELLED": CANCELLED,
    "FAILED": failed("node"),
    "TIMEOUT": failed("timeout"),
    "DEADLINE": failed("timeout"),
    "PREEMPTED": failed("preempted"),
    "NODE_FAIL": failed("node"),
    "BOOT_FAIL": failed("node"),
    "LAUNCH_FAILED": failed("node"),
    "RECONFIG_FAIL": failed("node"),
    "OUT_OF_MEMORY": failed("oom"),
}
GONE = TaskState(OVER, "SLURM no longer knows the job")


@dataclass(frozen=True)
class ListedTask:
    """A job, or an element of a job array, as SLURM lists it. `index` is 0 for a job that is not an array."""

    name: str
    job_id: str
    index: int
    state: TaskState


@dataclass(frozen=True)
class Site:
    """The properties that a cluster reports."""

    cluster: str
    max_array_size: int
    hides_jobs: bool  # users cannot see the jobs of others


class Slurm:
    """The commands of this machine's SLURM. SchedulerError if one fails, or takes more than `timeout` seconds."""

    def __init__(self, timeout: float = 60.0) -> None:
        self._timeout = timeout
        self._site: Site | None = None

    def site(self) -> Site:
        """Return the cluster's name, largest array, and whether it hides others' jobs. Asks SLURM once."""
        if self._site is None:
            said = self._ask("scontrol", "show", "config")
            facts = dict(re.findall(r"^\s*(\w+)\s*=\s*(.*?)\s*$", said, re.M))
            if "ClusterName" not in facts:
                raise _unreadable("scontrol show config", said)
            size = facts.get("MaxArraySize", "")
            hides_jobs = "jobs" in facts.get("PrivateData", "")
            name = facts["ClusterName"] or "slurm"
            self._site = Site(name, max(1, int(size)) if size.isdigit() else 1001, hides_jobs)
        return self._site

    def default_minutes(self, partition: str = "") -> int:
        """Return the time limit of a job that states none in this partition ("": the site's default); 0 for no limit.

        Of several partitions ("low,high") it is the shortest limit. submitit always requests one, by default five
        minutes. Raises a certain SchedulerError if there is no such partition.
        """
        listed = self._ask("scontrol", "--all", "--oneliner", "show", "partition")
        lines = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in listed.splitlines()]
        known = {line["PartitionName"]: line for line in lines if "PartitionName" in line}
        if not known:
            raise _unreadable("scontrol show partition", listed)
        if absent := [name for name in partition.split(",") if partition and name not in known]:
            what = f"slurm_partition: there is no partition {absent[0]!r} on this cluster, only {', '.join(known)}"
            raise SchedulerError(what, certain=True)
        chosen = [known[name] for name in partition.split(",") if partition]
        limits = []
        for line in chosen or [line for line in lines if line.get("Default") == "YES"]:
            stated = line.get("DefaultTime", "NONE")
            limits.append(minutes_of(line.get("MaxTime", "UNLIMITED") if stated == "NONE" else stated))
        return min(filter(None, limits), default=0)

    def tasks(self, names: Sequence[str]) -> list[ListedTask]:
        """Return every task of the jobs with these names that SLURM still knows, including recently ended ones."""
        question = ["--states=all", "--format=%F|%K|%T|%j", "--name"]
        answers = [self._ask("squeue", *question, ",".join(portion)) for portion in _portions(names)]
        wanted = set(names)
        return [task for answer in answers for task in _read_tasks(answer) if task.name in wanted]

    def ended(self, names: Sequence[str]) -> dict[tuple[str, int], TaskState]:
        """Return task states from the accounting of 30 days, by (job name, index); {}, not an error, if sacct fails."""
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
        """Cancel jobs or array elements ("12_3") for good; jobs that have already ended are no error."""
        for portion in _portions(jobs):
            self._ask("scancel", "--quiet", *portion)

    def requeue(self, job: str) -> None:
        """Put a job back into the queue, usually the calling one."""
        self._ask("scontrol", "requeue", job)

    def check_installed(self, command: str) -> None:
        """Raise SchedulerError if this machine does not have a command of SLURM."""
        if shutil.which(command) is None:
            raise SchedulerError(
                f"there is no {command} here, so this machine cannot talk to SLURM",
                certain=True,
                where=f"PATH={os.environ.get('PATH', '')[:200]}",
                fix="log in to a node of the cluster that has SLURM's commands, or leave --on slurm out",
            )

    def _ask(self, command: str, *arguments: str) -> str:
        self.check_installed(command)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SQUEUE_", "SACCT_"))}
        with subprocess.Popen(
            [command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # so that Ctrl-C does not end it half done
            env={**environment, "SLURM_BITSTR_LEN": "0"},  # array expressions of any length
        ) as process:
            try:
                output, errors = process.communicate(timeout=self._timeout)
            except BaseException as error:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise no_answer(command, self._timeout, shlex.join([command, *arguments])) from error
                raise
        if process.returncode == 0:
            return output
        message = " ".join((errors or output).split())[:400]
        raise SchedulerError(
            f"{command} failed: {message or f'exit code {process.returncode}'}",
            where=shlex.join([command, *arguments])[:200],
            fix=NO_SLURM,
        )


def no_answer(command: str, seconds: float, where: str) -> SchedulerError:
    """Return the error for a command that took too long."""
    return SchedulerError(f"{command} has not answered for {seconds:g} s", where=where[:200], fix=LATER)


def number_of_job(said: str | bytes) -> str:
    """Return the job number in sbatch's own sentence; raise ValueError if it says none, or several."""
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    numbers = set(re.findall(r"^Submitted batch job (\d+)\b", text, re.M))
    if len(numbers) != 1:
        raise ValueError(f"its answer is not 'Submitted batch job NUMBER', but {_short(text)}")
    return str(numbers.pop())


def failure_of_sbatch(message: str, where: str, *, has_failed: bool) -> SchedulerError:
    """Return the error for an sbatch from what it said. Without its exit code (not `has_failed`) nothing is certain."""
    said = " ".join(message.split())[:400]
    refused = has_failed and is_refusal(said)
    return SchedulerError(
        f"sbatch failed: {said or 'it said nothing'}",
        certain=refused,
        passes=refused and _LIMIT.search(said) is not None,
        where=where,
        fix=NO_SLURM,
    )


def minutes_of(text: str) -> int:
    """Return the minutes of a time as SLURM writes it, rounded up; 0 for any other text, such as UNLIMITED.

    "30" (minutes), "30:00", "2:00:00", "1-12" (days and hours), "1-12:30", "1-12:30:00".
    """
    parts = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", text.strip())
    if parts is None:
        return 0
    days, *given = parts.groups()
    numbers = [int(part) for part in given if part is not None]
    first = 0 if days or len(numbers) == 3 else 1  # of (hours, minutes, seconds), the place of the first number
    hours, minutes, seconds, *_ = [*[0] * first, *numbers, 0, 0]
    return int(days or 0) * 1440 + hours * 60 + minutes + math.ceil(seconds / 60)


def is_refusal(message: str) -> bool:
    """Return True if this message of a failed sbatch means that the job was certainly not accepted."""
    return bool(message) and _IN_DOUBT.search(message) is None


def _portions(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[start : start + NAMES_AT_ONCE] for start in range(0, len(names), NAMES_AT_ONCE)]


def task_state(text: str) -> TaskState:
    """Return the task state for a word of squeue or sacct, e.g. "CANCELLED by 1000"; UNKNOWN for other words."""
    words = text.strip().rstrip("+").split()
    word = words[0].rstrip("+").upper() if words else ""
    phase = OVER if word in _OVER else _PHASES.get(word, UNKNOWN)
    return TaskState(phase, f"SLURM says {word}" if word else GONE.in_words, _OVER.get(word))


def _short(said: str) -> str:
    return repr(" ".join(said.split())[:200])


def _unreadable(command: str, said: str) -> SchedulerError:
    """Return the error for a command that succeeded with another text than its answer, such as a site's message."""
    fix = f"give `{command}` by hand: once it answers as SLURM does, plat continues"
    return SchedulerError(f"{command} does not answer as SLURM does, but with {_short(said)}", where=command, fix=fix)


def _read_tasks(answer: str) -> list[ListedTask]:
    """Return the tasks that squeue lists, whatever a site prints above the list. SchedulerError if it is no list.

    A task whose indices cannot be read is UNREADABLE, and its state unknown.
    """
    _, title, listed = answer.partition(f"{LIST}\n")
    rows = [[part.strip() for part in line.split("|")] for line in listed.splitlines() if line.strip()]
    if not title or any(len(row) < 4 for row in rows):
        raise _unreadable("squeue", answer)
    tasks = []
    for number, expression, state, name, *_ in rows:
        try:
            tasks += [ListedTask(name, number, index, task_state(state)) for index in indices(expression)]
        except ValueError:
            tasks.append(ListedTask(name, number, UNREADABLE, TaskState(UNKNOWN, f"SLURM says {state}")))
    return tasks


def indices(expression: str) -> list[int]:
    """Return the indices of an array expression of squeue or sacct; raise ValueError if it is not one.

    "7", "4-7%2", "[1,3-5]", "0-8:2"; "N/A" or "" of a job that is not an array is index 0.
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
