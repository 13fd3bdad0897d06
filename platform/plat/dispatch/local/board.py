"""What a sweep looks like right now, for whoever shows it: one `View` per job that runs, and the totals.

Reads the spools of running jobs piece by piece, as they grow; never MLflow.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from plat.dispatch.api import ENDED, QUEUED, RUNNING, WAITING
from plat.dispatch.local.jobs import Job
from plat.outcomes import is_result
from plat.store.home import Home
from plat.store.run_directory import iterations_of
from plat.store.spool import read_events


@dataclass(frozen=True)
class View:
    """A job that runs (or is run by somebody else). `eta` in seconds, None when it cannot be told yet."""

    title: str
    kind: str
    state: str
    step: int | None
    iterations: int | None
    success: float | None
    seconds: float
    eta: float | None


@dataclass(frozen=True)
class Totals:
    """Counts of runs (not of preparations) in this sweep, and the expected seconds until it ends."""

    runs: int
    done: int
    failed: int
    running: int
    waiting: int
    queued: int
    preparing: int
    eta: float | None


@dataclass
class _Tail:
    path: Path
    offset: int = 0
    step: int | None = None
    success: float | None = None
    first: tuple[int, float] | None = None  # (step, when) of the first event seen

    def read(self) -> None:
        events, self.offset = read_events(self.path, self.offset)
        for event in events:
            if event.kind == "corrupt":
                continue
            self.step = event.step if self.step is None else max(self.step, event.step)
            self.success = event.metrics.get("val/success", self.success)
        if self.first is None and self.step is not None:
            self.first = (self.step, time.monotonic())


class Board:
    """Follows the jobs of one dispatcher."""

    def __init__(self, home: Home, jobs: Mapping[str, Job]) -> None:
        self._home = home
        self._jobs = jobs
        self._tails: dict[str, _Tail] = {}

    def views(self) -> list[View]:
        return [self._view(job) for job in self._jobs.values() if job.state in (RUNNING, WAITING)]

    def last(self, job: Job) -> tuple[int | None, float | None]:
        """(step, success) of a job, read to the end of its spool."""
        tail = self._follow(job)
        return (tail.step, tail.success) if tail else (None, None)

    def totals(self, views: list[View], slots: int, done_before: int, failed_before: int) -> Totals:
        runs = [job for job in self._jobs.values() if job.kind == "run"]
        states = Counter(job.state for job in runs)
        good = sum(1 for job in runs if is_good(job))
        return Totals(
            runs=len(runs) + done_before + failed_before,
            done=good + done_before,
            failed=states[ENDED] - good + failed_before,
            running=states[RUNNING],
            waiting=states[WAITING],
            queued=states[QUEUED],
            preparing=sum(1 for job in self._jobs.values() if job.kind == "prepare" and job.state == RUNNING),
            eta=self._eta(runs, views, slots),
        )

    def _eta(self, runs: list[Job], views: list[View], slots: int) -> float | None:
        """From the mean time of runs that ended here, or else of those that run, by their own rate."""
        lengths = [job.seconds for job in runs if job.state == ENDED and job.seconds > 0]
        rest = [view.eta for view in views if view.kind == "run" and view.eta is not None]
        lengths = lengths or [view.seconds + view.eta for view in views if view.kind == "run" and view.eta is not None]
        queued = sum(1 for job in runs if job.state == QUEUED)
        if not lengths or (queued == 0 and not rest):
            return None
        work = queued * sum(lengths) / len(lengths) + sum(rest)
        return max([work / max(1, slots), *rest])

    def _view(self, job: Job) -> View:
        seconds = time.monotonic() - job.started if job.started else 0.0
        if job.kind == "prepare":
            return View(job.title, job.kind, job.state, None, None, None, seconds, None)
        iterations = iterations_of(job.run.config)
        tail = self._follow(job)
        if tail is None:
            return View(job.title, job.kind, job.state, None, iterations, None, seconds, None)
        eta = None
        if iterations and tail.first is not None and tail.step is not None and tail.step > tail.first[0]:
            rate = (tail.step - tail.first[0]) / max(1e-9, time.monotonic() - tail.first[1])
            eta = max(0.0, (iterations - tail.step) / rate)
        return View(job.title, job.kind, job.state, tail.step, iterations, tail.success, seconds, eta)

    def _follow(self, job: Job) -> _Tail | None:
        attempts = self._home.run(job.run.id).attempts()
        if not attempts:
            return None
        tail = self._tails.get(job.id)
        if tail is None or tail.path != attempts[-1].events:
            tail = self._tails[job.id] = _Tail(attempts[-1].events, success=tail.success if tail else None)
        tail.read()
        return tail


def is_good(job: Job) -> bool:
    """Ended with a result: finished, or stopped early by a rule."""
    return job.state == ENDED and is_result(job.outcome)
