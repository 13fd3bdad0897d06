"""The common part of dispatchers that hand runs to a scheduler.

A run that a scheduler already has is followed and not submitted again. Each refresh asks the scheduler once, for all
runs. The run's directory decides its state (`plat.dispatch.decisions`), never the scheduler's report alone.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from plat.dispatch import decisions
from plat.dispatch.decisions import Changes, Decision
from plat.dispatch.dispatcher import ENDED, QUEUED, RUNNING, WAITING, Change, Dispatcher, Handle, Job
from plat.dispatch.schedulers import cancel_runs
from plat.dispatch.setting import Setting
from plat.errors import PlatError
from plat.runner.failures import FINAL
from plat.store.coordination.submissions import Record, open_record
from plat.store.run_directory.attempts import record_failure, requested_end, settle
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import read_outcome
from plat.store.run_directory.state import run_state
from plat.words.outcomes import CANCELLED, NOT_KNOWN, failed, is_failure
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run


class ScheduledDispatcher(Dispatcher):
    """Base class of a scheduler's dispatcher, which implements `_refresh` and `_hand_over`.

    scheduler      its name in the records of runs (`plat.store.coordination.submissions`)
    refresh_every  seconds between two questions to the scheduler
    """

    scheduler: ClassVar[str]
    on_this_machine = False
    detachable = True
    jobs: dict[str, Job]

    def __init__(self, setting: Setting, refresh_every: float) -> None:
        super().__init__(setting)
        self._setting = setting
        self._refresh_every = refresh_every
        self._to_submit: list[Job] = []
        self._followed: dict[str, Record] = {}  # job id -> record of the task that has its run
        self._changes = Changes()
        self._refreshed: float | None = None
        self._not_before = 0.0  # nothing is handed over before this moment

    @abstractmethod
    def _refresh(self) -> bool:
        """Ask the scheduler and note what is over. Return False if it does not answer; then nothing is concluded."""

    @abstractmethod
    def _hand_over(self, ready: list[Job]) -> None:
        """Submit free jobs. Each one ends up followed, queued to be submitted again, or refused."""

    def _room(self) -> int | None:
        """Return how many runs may be handed over now; None for no limit."""
        return None

    def submit(self, runs: Sequence[Run]) -> list[Handle]:
        """Queue runs, except those that are queued or followed already; `poll` hands them over."""
        for run in runs:
            if run.id not in self.jobs or self.jobs[run.id].state == ENDED:
                self.jobs[run.id] = Job(run.id, "run", run.name, run)
                self._to_submit.append(self.jobs[run.id])
        return [Handle(run.id, run.id) for run in runs]

    def poll(self, timeout: float = 0.0) -> list[Change]:
        """Ask the scheduler if it is time, hand over free runs, and return the changes."""
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
        """Return True while a run has not ended; False once stopping."""
        return not self.stopping and any(job.state != ENDED for job in self.jobs.values())

    def handed_over(self) -> bool:
        """Return True if a scheduler has every run that has not ended, each under a known job number."""
        followed = {record.submission for record in self._followed.values()}
        # A submission without a number may have to be made again.
        known = all(submission.job_id() is not None for submission in followed)
        return self._refreshed is not None and not self._to_submit and known

    def stop(self) -> None:
        """Stop following; runs of the scheduler continue."""
        self.stopping = True

    def kill(self) -> None:
        """Stop following: no run here needs this process."""
        self.stopping = True

    def cancel(self, handles: Sequence[Handle]) -> None:
        """Cancel runs for good, including those that the scheduler has. Raises SchedulerError if it cannot be asked."""
        wanted = [self.jobs[handle.job] for handle in handles]
        for job in wanted:
            job.cancelled = True
        waiting = [job for job in wanted if job in self._to_submit]
        self._to_submit = [job for job in self._to_submit if job not in waiting]
        for job in waiting:
            self._apply(job, Decision(ENDED, CANCELLED, "cancelled"))
        cancel_runs(self.home, [job.run.id for job in wanted if job.state != ENDED])

    def close(self) -> None:
        """Release all resources; runs of the scheduler continue."""

    def _follow(self, job: Job) -> None:
        """Update one job from its run's directory and the scheduler's last answer."""
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
        if now.state == RunStatus.DONE:
            self._apply(job, Decision(ENDED, now.outcome, now.reason))
        elif not record.is_open:
            outcome, reason = _end_of_task(paths, record)
            del self._followed[job.id]
            job.place = ""
            self._apply(job, decisions.after_attempt(job, paths, outcome, reason, self.stopping))
        elif now.state == RunStatus.FAILED and now.attempt > record.attempts and now.outcome in FINAL:
            self._apply(job, Decision(ENDED, now.outcome, now.reason))
        else:
            job.place = record.place
            state = RUNNING if now.state == RunStatus.RUNNING else QUEUED
            if state == RUNNING and job.state != RUNNING:
                job.started = time.monotonic()
            if state != job.state:
                self._changes.move(job, state)

    def _hand_over_free(self) -> None:
        """Submit free runs, as far as there is room; follow those that the scheduler already has."""
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
        """Make the run's directory. Return True to submit the run now; else the job ends, waits or is followed."""
        was_there = self.home.run(job.run.id).root.exists()
        try:
            paths = self._setting.create(job.run)
        except PlatError as error:
            self._apply(job, decisions.without_directory(error))
            return False
        if not was_there:  # a new run: if two submitters meet here, the run's record decides
            return True
        record = open_record(paths)
        if record is not None and record.facts.get("scheduler") != self.scheduler:
            self._apply(job, Decision(ENDED, NOT_KNOWN, record.place))
            return False
        if record is not None and not is_failure(run_state(paths).outcome):
            self._adopt(job, record)
            return False
        decision = decisions.before_start(paths, self._setting.steal)
        if decision is not None:
            self._apply(job, decision)
            return False
        if record is not None:  # a retried run whose old task still has other runs
            self._adopt(job, record)
            return False
        paths.cancel.unlink(missing_ok=True)
        return True

    def _adopt_or_put_back(self, jobs: Sequence[Job], records: Mapping[str, Record]) -> None:
        """Follow the jobs that have a record of this or another submission; queue the others again."""
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


def _end_of_task(paths: RunPaths, record: Record) -> tuple[str, str]:
    """Return (outcome, reason) of a run whose task is over: its own record comes first, then the scheduler's report.

    Completes the record of its newest attempt if needed. If the task ended before the run began, and the outcome is a
    failure, the run is recorded as failed, with a reference to the task's log. A cancelled run is not recorded as
    failed, nor one that no scheduler accepted ("interrupted").
    """
    end = record.submission.end(record.task)
    reason = str(end.get("reason") or "its job is over")
    attempts = paths.attempts()
    if not attempts or attempts[-1].number <= record.attempts:
        if paths.cancel.exists():
            return requested_end(paths)
        outcome = end.get("outcome") or failed("node")
        if not record.submission.manifest.exists() or record.submission.job_id() is None:
            return "interrupted", reason  # no scheduler ever accepted it
        if is_failure(outcome):
            record_failure(paths, outcome, record.why_not_begun)
        return outcome, reason
    recorded = read_outcome(attempts[-1])
    if recorded is not None:
        return str(recorded["outcome"]), str(recorded.get("reason") or "")
    outcome = end.get("outcome") or failed("node")
    if run_state(paths).state == RunStatus.DONE:
        return outcome, reason
    return settle(paths, outcome, f"{reason}; see {record.log}") or outcome, reason
