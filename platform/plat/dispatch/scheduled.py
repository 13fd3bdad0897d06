"""What dispatchers share that hand runs to a scheduler: which runs are handed over, and how those that it has go on.

Promised: a run that a scheduler has already, whoever submitted it, is followed and not submitted again; each refresh
asks the scheduler once, however many runs there are. What becomes of a run is decided from its directory
(`plat.dispatch.decisions`), never from the scheduler's word alone.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from plat.dispatch import decisions
from plat.dispatch.api import ENDED, QUEUED, RUNNING, WAITING, Change, Handle, Job
from plat.dispatch.changes import Changes
from plat.dispatch.decisions import Decision
from plat.dispatch.ends import end_of_task
from plat.dispatch.registry import Setting
from plat.errors import PlatError
from plat.outcomes import is_failure
from plat.runner.failures import FINAL
from plat.store.run_directory.state import run_state
from plat.store.submissions import Record, open_record

if TYPE_CHECKING:
    from plat.spec.runs import Run


class ScheduledDispatcher(ABC):
    """A scheduler's dispatcher gives the class two things: `_refresh` and `_hand_over`.

    scheduler      its name in the records of runs (`plat.store.submissions`)
    refresh_every  seconds between two questions to the scheduler
    """

    scheduler: ClassVar[str]
    farewell = ""
    detachable = True

    def __init__(self, setting: Setting, refresh_every: float, slots: int | None = None) -> None:
        self.home = setting.home
        self.jobs: dict[str, Job] = {}
        self.slots = slots
        self.stopping = False
        self.notices: list[str] = []
        self._setting = setting
        self._refresh_every = refresh_every
        self._to_submit: list[Job] = []
        self._followed: dict[str, Record] = {}  # job -> the task that has its run
        self._changes = Changes()
        self._refreshed: float | None = None
        self._not_before = 0.0  # nothing is handed over before this moment

    @abstractmethod
    def _refresh(self) -> bool:
        """Ask the scheduler and note what is over; False when it does not answer. Then nothing is concluded."""

    @abstractmethod
    def _hand_over(self, ready: list[Job]) -> None:
        """Submit jobs that are nobody's. Each ends up followed, to be submitted again, or refused."""

    def _room(self) -> int | None:
        """How many runs may be handed over now; None for all of them."""
        return None

    @abstractmethod
    def _cancel(self, run_ids: Sequence[str]) -> None:
        """Ask runs that the scheduler has to stop for good."""

    def submit(self, runs: Sequence[Run]) -> list[Handle]:
        """Queue runs; they are handed over in `poll`."""
        for run in runs:
            if run.id not in self.jobs or self.jobs[run.id].state == ENDED:
                self.jobs[run.id] = Job(run.id, "run", run.name, run)
                self._to_submit.append(self.jobs[run.id])
        return [Handle(run.id, run.id) for run in runs]

    def poll(self, timeout: float = 0.0) -> list[Change]:
        """Ask the scheduler if it is time, hand over what is free, and give what has changed."""
        now = time.monotonic()
        due = self._refreshed is None or now - self._refreshed >= self._refresh_every
        to_submit = len(self._to_submit)
        if due and self.active():
            self._refreshed = now
            if self._refresh():
                for job in [job for job in self.jobs.values() if job.state != ENDED]:
                    self._follow(job)
                if now >= self._not_before and not self.stopping:
                    self._hand_over_free()
        if not self._changes and timeout and len(self._to_submit) == to_submit:  # nothing has happened
            time.sleep(timeout)
        return self._changes.take()

    def active(self) -> bool:
        """Whether anything is followed that has not ended."""
        return not self.stopping and any(job.state != ENDED for job in self.jobs.values())

    def handed_over(self) -> bool:
        """Whether a scheduler has every run that has not ended, under a number that is known.

        A submission whose number nobody knows yet may still have to be made again.
        """
        followed = {record.submission for record in self._followed.values()}
        known = all(submission.job_id() is not None for submission in followed)
        return self._refreshed is not None and not self._to_submit and known

    def stop(self) -> None:
        """Follow no more; what the scheduler has goes on."""
        self.stopping = True

    def kill(self) -> None:
        """Nothing here needs this process."""
        self.stopping = True

    def cancel(self, handles: Sequence[Handle]) -> None:
        """Stop runs for good, those that the scheduler has, too."""
        wanted = [self.jobs[handle.job] for handle in handles]
        for job in wanted:
            job.cancelled = True
        waiting = [job for job in wanted if job in self._to_submit]
        self._to_submit = [job for job in self._to_submit if job not in waiting]
        for job in waiting:
            self._apply(job, Decision(ENDED, "cancelled", "cancelled"))
        self._cancel([job.run.id for job in wanted if job.state != ENDED])

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held; what the scheduler has goes on."""

    # --- following ----------------------------------------------------------------------------------------------------

    def _follow(self, job: Job) -> None:
        """Bring one job up to date with what its run's directory, and the last answer of the scheduler, say."""
        paths = self.home.run(job.run.id)
        if job.state == WAITING:
            decision = decisions.while_waiting(job, paths, self._setting.steal, self.stopping)
            if decision is not None:
                self._apply(job, decision)
            return
        record = self._followed.get(job.id)
        if record is None:
            return
        now = run_state(paths)
        if now.state == "done":
            self._apply(job, Decision(ENDED, now.outcome, now.reason))
        elif not record.is_open:
            outcome, reason = end_of_task(paths, record)
            del self._followed[job.id]
            job.place = ""
            self._apply(job, decisions.after_attempt(job, paths, outcome, reason, self.stopping))
        elif now.state == "failed" and now.attempt > record.attempts and now.outcome in FINAL:
            self._apply(job, Decision(ENDED, now.outcome, now.reason))
        else:
            job.place = record.place
            state = RUNNING if now.state == "running" else QUEUED
            if state == RUNNING and job.state != RUNNING:
                job.started = time.monotonic()
            if state != job.state:
                self._changes.move(job, state)

    # --- handing over -------------------------------------------------------------------------------------------------

    def _hand_over_free(self) -> None:
        """Submit what is nobody's, as far as there is room; follow what the scheduler has already."""
        room = self._room()
        jobs, self._to_submit = self._to_submit, []
        ready: list[Job] = []
        for position, job in enumerate(jobs):
            if room is not None and len(ready) >= room:
                self._to_submit += jobs[position:]
                break
            if self._is_free(job):
                ready.append(job)
        if ready:
            self._hand_over(ready)

    def _is_free(self, job: Job) -> bool:
        """Make the run's directory. Whether the run is to be submitted now; if not, the job is on its way already."""
        was_there = self.home.run(job.run.id).root.exists()
        try:
            paths = self._setting.create(job.run)
        except PlatError as error:
            self._apply(job, decisions.without_directory(error))
            return False
        if not was_there:  # nobody can have it; should somebody be as quick as we are, the run's record decides
            return True
        record = open_record(paths)
        if record is not None and record.facts.get("scheduler") != self.scheduler:
            self._apply(job, Decision(ENDED, "unknown", record.place))
            return False
        if record is not None and not is_failure(run_state(paths).outcome):
            self._adopt(job, record)
            return False
        decision = decisions.before_start(paths, self._setting.steal)
        if decision is not None:
            self._apply(job, decision)
            return False
        if record is not None:  # a failed run that is tried again while its old task still has other runs
            self._adopt(job, record)
            return False
        paths.cancel.unlink(missing_ok=True)
        return True

    def _adopt_or_put_back(self, jobs: Sequence[Job], records: Mapping[str, Record]) -> None:
        """After a submission that made these records: follow the jobs that it, or another, has; the others are handed
        over again."""
        for job in jobs:
            record = records.get(job.run.id) or open_record(self.home.run(job.run.id))
            if record is None:
                self._to_submit.append(job)
            else:
                self._adopt(job, record)

    def _adopt(self, job: Job, record: Record) -> None:
        self._followed[job.id] = record
        job.place = record.place

    def _apply(self, job: Job, decision: Decision) -> None:
        if decision.state == QUEUED:
            self._to_submit.append(job)
        if decision.state == ENDED:
            self._followed.pop(job.id, None)
            job.place = ""
            job.seconds = time.monotonic() - job.started if job.started else 0.0
        self._changes.apply(job, decision)
