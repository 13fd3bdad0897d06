"""A job of the local dispatcher, and how the death of its process is read."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.dispatch.api import Job
from plat.outcomes import INTERRUPTED
from plat.store.home import Home
from plat.trainer.api import find_trainer
from plat.trainer.resources import Resources

if TYPE_CHECKING:
    from plat.spec.runs import Run

CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS, signal.SIGTRAP)


@dataclass(eq=False)
class LocalJob(Job):
    """A job done in a process of its own on this machine. Times are monotonic seconds.

    needs      the preparation that must be finished first
    ending     set before the dispatcher kills it: the (outcome, reason) that is then recorded
    """

    threads: int = 1
    gpus: int = 0
    needs: LocalJob | None = None
    ending: tuple[str, str] | None = None
    devices: tuple[str, ...] = ()
    spool_size: int = -1
    grown: float = 0.0
    kill_at: float | None = None
    oom_kills: int | None = None


def make_jobs(runs: list[Run], cached: Collection[str] = ()) -> list[LocalJob]:
    """The preparations whose key is not in the cache, each once, then the runs in their own order."""
    preparations: dict[str, LocalJob] = {}
    jobs = []
    for run in runs:
        needed = Resources.of(run.resources)
        threads, gpus = max(1, needed.threads), needed.gpus
        needs = None
        if run.prepare is not None and run.prepare[0] not in cached:
            key, title = run.prepare
            name = f"prepare:{run.trainer}:{key}"
            needs = preparations.setdefault(name, LocalJob(name, "prepare", title, run, threads=threads, gpus=gpus))
        jobs.append(LocalJob(run.id, "run", run.name, run, threads=threads, gpus=gpus, needs=needs))
    return [*preparations.values(), *jobs]


def start_request(job: LocalJob, home: Home, steal: bool, environment: dict[str, str]) -> dict[str, Any]:
    """What the worker server is asked for (see `plat.dispatch.local.server` and `worker.work`)."""
    request = {
        "op": "start",
        "job": job.id,
        "kind": job.kind,
        "title": job.title,
        "home": str(home.root),
        "run_id": job.run.id,
        "steal": steal,
        "threads": job.threads,
        "env": environment,
    }
    if job.kind == "prepare":
        request |= {"trainer": job.run.trainer, "config": job.run.config, "log": str(home.job_log(job.id))}
    return request


def read_end(status: int, result: dict[str, Any] | None, job: LocalJob, oom_kills: int | None) -> tuple[str, str]:
    """(outcome, reason) of an ended process, from its wait status and what it managed to say.

    A SIGKILL is called out-of-memory only when the kernel counted an OOM kill since the job started.
    """
    if job.ending is not None:
        return job.ending
    if result is not None and "outcome" in result:
        return result["outcome"], result.get("reason", "")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            if oom_kills is not None and job.oom_kills is not None and oom_kills > job.oom_kills:
                return "failed:oom", "killed by the kernel: out of memory"
            return "failed:node", "killed (SIGKILL) from outside"
        if number == signal.SIGTERM:
            return INTERRUPTED, "asked to stop before it could save"
        if number == signal.SIGXCPU:
            return "failed:timeout", "used up its CPU time limit"
        if number in CRASHES:
            return "failed:error", f"crashed with {signal_name(number)}; its log has the traceback"
        return "failed:node", f"ended by {signal_name(number)}"
    return "failed:error", f"the process left with exit code {os.WEXITSTATUS(status)} and said nothing"


def signal_name(number: int) -> str:
    """The name of a signal, for example "SIGTERM"; "signal 40" for one without a name in Python (a real-time one)."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def trainers_that_train(runs: Iterable[Run]) -> list[str]:
    """The trainers that the server warms up: each once, unless none of its runs has an iteration.

    A run without iterations imports the little that it needs itself, and so waits for nothing else.
    """
    names = (run.trainer for run in runs if find_trainer(run.trainer).iterations(run.config) != 0)
    return list(dict.fromkeys(names))
