"""A job of the local dispatcher, made from a run, and what the worker server is asked for to start it."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.dispatch.api import Job
from plat.spec.trainer_calls import iterations_of
from plat.store.home import Home
from plat.trainer.resources import Resources

if TYPE_CHECKING:
    from plat.spec.runs import Run


@dataclass(eq=False)
class LocalJob(Job):
    """A job done in a process of its own on this machine. Times are monotonic seconds.

    needs      the preparation that must be finished first
    ending     set before the dispatcher kills it: the (outcome, reason) that is then recorded
    """

    threads: int = 1
    gpus: int = 0
    nodes: int = 1
    needs: LocalJob | None = None
    ending: tuple[str, str] | None = None
    devices: tuple[str, ...] = ()
    sign_of_life: tuple[int, int] = (-1, -1)
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
        jobs.append(LocalJob(run.id, "run", run.name, run, threads=threads, gpus=gpus, nodes=needed.nodes, needs=needs))
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
    names = (run.trainer for run in runs if iterations_of(run.trainer, run.config) != 0)
    return list(dict.fromkeys(names))
