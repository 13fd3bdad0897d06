"""How a sweep stands right now, for whoever shows it: one `View` per job that runs, and the totals.

Reads the spools of running jobs as they grow, never MLflow.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from plat.dispatch.api import ENDED, QUEUED, RUNNING, WAITING, Job
from plat.outcomes import failure_class
from plat.spec.trainer_calls import iterations_of
from plat.store.home import Home
from plat.store.preparations import progress_of
from plat.store.run_directory.files import read_status
from plat.store.run_directory.paths import AttemptPaths
from plat.store.run_directory.spool import Event
from plat.store.run_directory.spool_follower import SpoolFollower
from plat.trainer.api import find_trainer

KNOWN_FROM = 0.05  # share of a preparation's steps that must be done before its time left is estimated


@dataclass(frozen=True)
class View:
    """A job that runs (or is run by somebody else).

    step, iterations  of a run its iterations; of a preparation the steps that its log counts ("step 51/1500")
    eta               seconds that are left, None when it cannot be known yet
    note              of a preparation, the last line of its log; of a run before its first event, what it is doing
    """

    title: str
    kind: str
    state: str
    step: int | None
    iterations: int | None
    success: float | None
    seconds: float
    eta: float | None
    note: str = ""


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


class _Attempt(SpoolFollower):
    """The progress of the attempt that a run is at, and how fast it goes on.

    success  of an earlier attempt, shown until this one has measured it
    """

    def __init__(self, events: Path, headline: str, success: float | None) -> None:
        super().__init__(events, headline, from_end=True)
        self.success = success if self.success is None else self.success
        self._first = (self.step, time.monotonic())  # the first step that was seen, and when

    def update(self) -> list[Event]:
        events = super().update()
        if self._first[0] is None:
            self._first = (self.step, time.monotonic())
        return events

    def seconds_left(self, iterations: int | None) -> float | None:
        """Expected from the steps made since the first that was seen; None when that cannot be known yet."""
        first, when = self._first
        if not iterations or self.step is None or first is None or self.step <= first:
            return None
        rate = (self.step - first) / max(1e-9, time.monotonic() - when)
        return max(0.0, (iterations - self.step) / rate)


class Board:
    """Follows the jobs of one dispatcher. `done_before` and `failed_before` count runs of the sweep that had ended."""

    def __init__(self, home: Home, jobs: Mapping[str, Job], *, done_before: int = 0, failed_before: int = 0) -> None:
        self._home = home
        self._jobs = jobs
        self._done_before = done_before
        self._failed_before = failed_before
        self._attempts: dict[str, _Attempt] = {}

    def views(self) -> list[View]:
        """The jobs that run now, here or elsewhere."""
        return [self._view(job) for job in self._jobs.values() if job.state in (RUNNING, WAITING)]

    def last(self, job: Job) -> tuple[int | None, float | None]:
        """(step, success) of a job, read to the end of its spool."""
        attempt = self._attempt(job)
        return (attempt.step, attempt.success) if attempt else (None, None)

    def totals(self, views: list[View], slots: int) -> Totals:
        """The counts of all jobs; `views` are those of `views()`, `slots` how many jobs run at once."""
        runs = [job for job in self._jobs.values() if job.kind == "run"]
        states = Counter(job.state for job in runs)
        good = sum(1 for job in runs if job.has_result)
        return Totals(
            runs=len(runs) + self._done_before + self._failed_before,
            done=good + self._done_before,
            failed=sum(1 for job in runs if job.state == ENDED and failure_class(job.outcome)) + self._failed_before,
            running=states[RUNNING],
            waiting=states[WAITING],
            queued=states[QUEUED],
            preparing=sum(1 for job in self._jobs.values() if job.kind == "prepare" and job.state == RUNNING),
            eta=self._eta(runs, views, slots),
        )

    def _eta(self, runs: list[Job], views: list[View], slots: int) -> float | None:
        """From the mean time of runs that ended in this sweep; None before, while there are runs that wait for a slot.

        The first iterations of a run say little: validation before training and the start of workers are in them.
        """
        lengths = [job.seconds for job in runs if job.state == ENDED and job.seconds > 0]
        rest = [view.eta for view in views if view.kind == "run" and view.eta is not None]
        queued = sum(1 for job in runs if job.state == QUEUED)
        if (queued and not lengths) or not (queued or rest):
            return None
        work = sum(rest) + (queued * sum(lengths) / len(lengths) if queued else 0.0)
        return max([work / max(1, slots), *rest])

    def _view(self, job: Job) -> View:
        seconds = time.monotonic() - job.started if job.started else 0.0
        if job.kind == "prepare":
            line, done, of = progress_of(self._home, job.id)
            eta = seconds * (of / done - 1) if done and of and of * KNOWN_FROM <= done <= of else None
            return View(job.title, job.kind, job.state, done, of, None, seconds, eta, line)
        iterations = iterations_of(job.run.trainer, job.run.config)
        attempt = self._attempt(job)
        if attempt is None:
            return View(job.title, job.kind, job.state, None, iterations, None, seconds, None)
        eta = attempt.seconds_left(iterations)
        note = read_status(AttemptPaths(attempt.path.parent)) if attempt.step is None else ""
        return View(job.title, job.kind, job.state, attempt.step, iterations, attempt.success, seconds, eta, note)

    def _attempt(self, job: Job) -> _Attempt | None:
        """The newest attempt of a run, read to the end of its spool; None before the first."""
        attempts = self._home.run(job.run.id).attempts()
        if not attempts:
            return None
        events = attempts[-1].events
        known = self._attempts.get(job.id)
        if known is not None and known.path == events:
            known.update()
            return known
        headline = find_trainer(job.run.trainer).headline
        self._attempts[job.id] = _Attempt(events, headline, known.success if known else None)
        return self._attempts[job.id]
