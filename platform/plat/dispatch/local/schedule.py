"""Choose the job that starts next.

A run that needs no pending preparation never waits for the preparations of others, if there are at least two slots.
While runs are ready, preparations take at most half of the slots; otherwise all. The preparation with the most work
behind it goes first. Runs keep their order; runs whose preparation has just ended go behind those already ready.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.dispatch.dispatcher import QUEUED, Job
from plat.planning.cost import History
from plat.spec.composition.trainer_calls import iterations_of
from plat.store.home import Home
from plat.trainer.finding import find_trainer
from plat.trainer.resources import Resources

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run

ASSUMED_SECONDS = 20.0  # of a run without a similar one in the history; affects only the order of preparations


class Schedule:
    """The jobs that have not started yet. Jobs cancelled meanwhile are skipped."""

    def __init__(self) -> None:
        self._ready: deque[LocalJob] = deque()
        self._preparations: list[LocalJob] = []
        self._blocked: dict[str, list[LocalJob]] = {}  # id of a preparation -> the runs that need it

    def add(self, jobs: Iterable[LocalJob], work: Callable[[LocalJob], float]) -> None:
        """Queue jobs; `work` gives the expected seconds of each."""
        for job in jobs:
            if job.kind == "prepare":
                self._preparations.append(job)
            elif job.needs is None:
                self._ready.append(job)
            else:
                self._blocked.setdefault(job.needs.id, []).append(job)

        def behind(job: LocalJob) -> float:
            return work(job) + sum(work(run) for run in self._blocked.get(job.id, ()))

        self._preparations.sort(key=behind, reverse=True)

    def put_back(self, job: LocalJob) -> None:
        """Queue a job to be retried, ahead of all others of its kind (runs, or preparations)."""
        if job.kind == "prepare":
            self._preparations.insert(0, job)
        else:
            self._ready.appendleft(job)

    def unblock(self, preparation: LocalJob) -> None:
        """Make the runs that need this finished preparation ready."""
        self._ready += self._blocked.pop(preparation.id, [])

    def drop_blocked(self, preparation: LocalJob) -> list[LocalJob]:
        """Remove and return the queued runs that needed this failed preparation."""
        return [job for job in self._blocked.pop(preparation.id, []) if job.state == QUEUED]

    def next(self, slots: int, preparing: int, fits: Callable[[LocalJob], bool]) -> LocalJob | None:
        """Remove and return the job to start; None to wait.

        preparing   number of running preparations
        fits        whether the GPUs of a job are free
        """
        # Preparations do not wait until last: a long one would then leave the other slots idle.
        if preparing < slots // 2:
            return self._next_preparation(fits) or self._next_run(fits)
        return self._next_run(fits) or self._next_preparation(fits)

    def _next_run(self, fits: Callable[[LocalJob], bool]) -> LocalJob | None:
        while self._ready and self._ready[0].state != QUEUED:
            self._ready.popleft()
        for position, job in enumerate(self._ready):
            if job.state == QUEUED and fits(job):
                del self._ready[position]
                return job
        return None

    def _next_preparation(self, fits: Callable[[LocalJob], bool]) -> LocalJob | None:
        self._preparations = [job for job in self._preparations if job.state == QUEUED]
        for job in self._preparations:
            if fits(job):
                self._preparations.remove(job)
                return job
        return None


def expected_seconds(home: Home, jobs: Sequence[LocalJob]) -> Callable[[LocalJob], float]:
    """Return a function that estimates the seconds of a job from similar ones in this home.

    A run without a similar one counts as ASSUMED_SECONDS; so does every run if `jobs` has no preparation, because the
    estimates only order preparations.
    """
    history = History.read(home.history) if any(job.kind == "prepare" for job in jobs) else History([])

    def seconds(job: LocalJob) -> float:
        if job.kind == "prepare":
            return history.preparation_seconds(job.id)
        cost = history.seconds(job.run, 0)
        return ASSUMED_SECONDS if cost is None else cost

    return seconds


# Jobs of the local dispatcher, made from runs, and the requests that start them in the worker server.

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
