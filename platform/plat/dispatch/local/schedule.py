"""Choose the job that starts next.

A run that needs no pending preparation never waits for the preparations of others, if there are at least two slots.
While runs are ready, preparations take at most half of the slots; otherwise all. The preparation with the most work
behind it goes first. Runs keep their order; runs whose preparation has just ended go behind those already ready.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from plat.dispatch.dispatcher import QUEUED
from plat.dispatch.local.jobs import LocalJob
from plat.planning.cost import History
from plat.store.home import Home

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
