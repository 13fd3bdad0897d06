"""The current state of a sweep for display: one `View` per running job, and the totals."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from plat.dispatch.dispatcher import ENDED, QUEUED, RUNNING, WAITING, Job
from plat.dispatch.follower import Follower
from plat.dispatch.run_view import View
from plat.spec.composition.trainer_calls import iterations_of
from plat.store.coordination.preparations import progress_of
from plat.store.home import Home
from plat.store.run_directory.paths import AttemptPaths
from plat.store.run_directory.run_files import read_status
from plat.words.outcomes import failure_class

KNOWN_FROM = 0.05  # fraction of a preparation's steps after which its time left is estimated


@dataclass(frozen=True)
class Totals:
    """The numbers of runs of a sweep, in all and by state; `preparing` counts the preparations that run now.

    waiting  runs that another process has
    eta      expected seconds until the sweep ends; None if unknown
    """

    runs: int
    done: int
    failed: int
    running: int
    waiting: int
    queued: int
    preparing: int
    eta: float | None


class Board:
    """Follow the jobs of one dispatcher; `done_before` and `failed_before` count runs that had ended before it."""

    def __init__(self, home: Home, jobs: Mapping[str, Job], *, done_before: int = 0, failed_before: int = 0) -> None:
        self._home = home
        self._jobs = jobs
        self._done_before = done_before
        self._failed_before = failed_before
        self._follower = Follower(home)

    def views(self) -> list[View]:
        """Return a view of each job that runs now, here or elsewhere."""
        return [self._view(job) for job in self._jobs.values() if job.state in (RUNNING, WAITING)]

    def measured(self, job: Job) -> str:
        """Return the newest success and `script.metric` of a run, read to the end of its spool; "" if unknown."""
        attempt = self._follower.attempt(job.run.id)
        return attempt.measured if attempt else ""

    def totals(self, views: list[View], slots: int) -> Totals:
        """Return the counts of all jobs, given `views()`; `slots` is the number of jobs that run at the same time."""
        runs = [job for job in self._jobs.values() if job.kind == "run"]
        states = Counter(job.state for job in runs)
        failed = sum(1 for job in runs if job.state == ENDED and failure_class(job.outcome))
        return Totals(
            runs=len(runs) + self._done_before + self._failed_before,
            done=sum(1 for job in runs if job.has_result) + self._done_before,
            failed=failed + self._failed_before,
            running=states[RUNNING],
            waiting=states[WAITING],
            queued=states[QUEUED],
            preparing=sum(1 for job in self._jobs.values() if job.kind == "prepare" and job.state == RUNNING),
            eta=self._eta(runs, views, slots),
        )

    def _eta(self, runs: list[Job], views: list[View], slots: int) -> float | None:
        """Return the expected seconds until the sweep ends; None while runs are queued and none has ended.

        max(work / slots, longest time left of a running run), where work = sum of times left + queued runs * mean
        seconds of ended runs.
        """
        # The first iterations of a run say little: they include validation and the start of workers.
        lengths = [job.seconds for job in runs if job.state == ENDED and job.seconds > 0]
        rest = [view.eta for view in views if view.kind == "run" and view.eta is not None]
        queued = sum(1 for job in runs if job.state == QUEUED)
        if (queued and not lengths) or not (queued or rest):
            return None
        work = sum(rest) + (queued * sum(lengths) / len(lengths) if queued else 0.0)
        return max([work / max(1, slots), *rest])

    def _view(self, job: Job) -> View:
        seconds = time.monotonic() - job.started if job.started else 0.0
        state = "elsewhere" if job.state == WAITING else "running"
        if job.kind == "prepare":
            note, done, of = progress_of(self._home, job.id)
            eta = seconds * (of / done - 1) if done and of and of * KNOWN_FROM <= done <= of else None
            state = "preparing" if job.state == RUNNING else state
            return View(job.id, job.title, state, done, of, seconds=seconds, eta=eta, note=note, kind=job.kind)
        iterations = iterations_of(job.run.trainer, job.run.config)
        view = View(job.id, job.title, state, iterations=iterations, seconds=seconds)
        attempt = self._follower.attempt(job.run.id)
        if attempt is None:
            return view
        note = read_status(AttemptPaths(attempt.path.parent)) if attempt.step is None else ""
        state = "starting" if note and job.state == RUNNING else state
        eta = attempt.seconds_left(iterations)
        return replace(
            view, state=state, step=attempt.step, success=attempt.success, metric=attempt.metric, eta=eta, note=note
        )
