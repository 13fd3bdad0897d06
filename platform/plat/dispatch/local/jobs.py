"""Jobs of the local dispatcher, made from runs, and the requests that start them in the worker server."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.dispatch.dispatcher import Job
from plat.spec.composition.trainer_calls import iterations_of
from plat.store.home import Home
from plat.trainer.finding import find_trainer
from plat.trainer.resources import Resources

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run


THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip


@dataclass(eq=False)
class LocalJob(Job):
    """A job in its own process on this machine. Times are monotonic seconds.

    needs         the preparation that must finish first; None if there is none, or it has finished
    ending        (outcome, reason) to record; set before the dispatcher kills the job
    gpus          number of GPUs that it needs, or the share of one GPU, such as 0.25
    devices       names of the GPUs that it has, as in CUDA_VISIBLE_DEVICES
    sign_of_life  size of its spool and time of its last beat; `grown` is when it last changed
    kill_at       time at which a stalled job gets SIGKILL
    oom_kills     the kernel's counter of OOM kills when the job started; None if unknown
    """

    threads: int = 1
    gpus: float = 0
    nodes: int = 1
    needs: LocalJob | None = None
    ending: tuple[str, str] | None = None
    devices: tuple[str, ...] = ()
    sign_of_life: tuple[int, int] = (-1, -1)
    grown: float = 0.0
    kill_at: float | None = None
    oom_kills: int | None = None


def make_jobs(runs: list[Run], cached: Collection[str] = (), gpus_of_each: float = 0) -> list[LocalJob]:
    """Return a job for each different preparation whose key is not in `cached`, then a job for each run, in order.

    gpus_of_each   GPUs of each job; 0: what its trainer states
    """
    preparations: dict[str, LocalJob] = {}
    jobs = []
    for run in runs:
        needed = Resources.of(run.resources)
        threads, gpus = max(1, needed.threads), gpus_of_each or needed.gpus
        needs = None
        if run.prepare is not None and run.prepare[0] not in cached:
            key, title = run.prepare
            name = f"prepare:{run.trainer}:{key}"
            needs = preparations.setdefault(name, LocalJob(name, "prepare", title, run, threads=threads, gpus=gpus))
        jobs.append(LocalJob(run.id, "run", run.name, run, threads=threads, gpus=gpus, nodes=needed.nodes, needs=needs))
    return [*preparations.values(), *jobs]


def start_request(job: LocalJob, home: Home, steal: bool, environment: dict[str, str]) -> dict[str, Any]:
    """Return the request that starts a job (see `plat.dispatch.local.server` and `worker.work`)."""
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
        "reuses_process": job.kind == "run" and find_trainer(job.run.trainer).reuses_process,
    }
    if job.kind == "prepare":
        request |= {"trainer": job.run.trainer, "config": job.run.config, "log": str(home.job_log(job.id))}
    return request


def thread_environment(threads: int) -> dict[str, str]:
    """Return variables that limit every numerical library to this many threads; read when a library is loaded."""
    return {name: str(threads) for name in THREAD_VARIABLES}


def trainers_that_train(runs: Iterable[Run]) -> list[str]:
    """Return the trainers that the server warms up, each once: those with a run that has iterations.

    A run without iterations imports the few modules that it needs itself, and so does not wait for the others.
    """
    names = (run.trainer for run in runs if iterations_of(run.trainer, run.config) != 0)
    return list(dict.fromkeys(names))
