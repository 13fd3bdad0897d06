"""Hands runs to SLURM and follows them there (a Dispatcher). Nothing here needs to live for a run to go on.

Promised: a run that SLURM has already, whoever submitted it, is followed and not submitted again; a run is submitted by
one submitter only, exactly once (`submission`); each refresh asks SLURM once, however many runs there are. What becomes
of a run is decided from its directory (`plat.dispatch.decisions`), never from SLURM's word alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from plat.dispatch import decisions
from plat.dispatch.api import ENDED, QUEUED, REFUSED, RUNNING, WAITING, Change, Handle, Job
from plat.dispatch.decisions import Decision
from plat.dispatch.registry import Setting
from plat.dispatch.slurm.cancel import cancel_runs
from plat.dispatch.slurm.commands import SchedulerError, Slurm
from plat.dispatch.slurm.ends import end_of_task
from plat.dispatch.slurm.packing import Chunk, chunks
from plat.dispatch.slurm.profile import Profile, load_profile
from plat.dispatch.slurm.refresh import refresh
from plat.dispatch.slurm.submission import submit
from plat.errors import HomeError, PlatError
from plat.outcomes import is_failure
from plat.plan.cost import History
from plat.runner.failures import FINAL
from plat.store.run_directory.state import run_state
from plat.store.submissions import Record, open_record

if TYPE_CHECKING:
    from plat.spec.runs import Run

LATER = 30.0  # seconds until runs above a site's limit are submitted again


class SlurmDispatcher:
    """`profile` says how jobs are submitted; `setting.jobs` caps how many tasks of an array run at once."""

    farewell = "following no more: what SLURM has goes on there, and the same command follows it again"
    detachable = True

    def __init__(self, setting: Setting, profile: Profile, slurm: Slurm) -> None:
        self.home = setting.home
        self.jobs: dict[str, Job] = {}
        self.slots: int | None = setting.jobs or profile.max_parallel or None
        self.stopping = False
        self.notices: list[str] = []
        self._setting = setting
        self._profile = profile
        self._slurm = slurm
        self._to_submit: list[Job] = []
        self._followed: dict[str, Record] = {}  # job -> the task that has its run
        self._changes: list[Change] = []
        self._refreshed: float | None = None
        self._not_before = 0.0
        self._silent = False  # SLURM did not answer, and that was said

    def submit(self, runs: Sequence[Run]) -> list[Handle]:
        """Queue runs; they are handed to SLURM in `poll`. SpecError when a run asks for what cannot be."""
        for run in runs:
            if run.id not in self.jobs or self.jobs[run.id].state == ENDED:
                self.jobs[run.id] = Job(run.id, "run", run.name, run)
                self._to_submit.append(self.jobs[run.id])
        return [Handle(run.id, run.id) for run in runs]

    def poll(self, timeout: float = 0.0) -> list[Change]:
        now = time.monotonic()
        due = self._refreshed is None or now - self._refreshed >= self._profile.refresh
        if due and not self.stopping:
            self._refreshed = now
            if self._refresh():
                for job in [job for job in self.jobs.values() if job.state != ENDED]:
                    self._follow(job)
                if now >= self._not_before:
                    self._hand_over()
        if not self._changes and timeout:
            time.sleep(timeout)
        changes, self._changes = self._changes, []
        return changes

    def active(self) -> bool:
        return not self.stopping and any(job.state != ENDED for job in self.jobs.values())

    def handed_over(self) -> bool:
        """A submission whose number nobody knows yet may still have to be made again."""
        followed = {record.submission for record in self._followed.values()}
        known = all(submission.job_id() is not None for submission in followed)
        return self._refreshed is not None and not self._to_submit and known

    def stop(self) -> None:
        """Follow no more; what SLURM has goes on."""
        self.stopping = True

    def kill(self) -> None:
        """There is nothing here to kill."""
        self.stopping = True

    def cancel(self, handles: Sequence[Handle]) -> None:
        """Stop runs for good, in SLURM's queue and in its jobs."""
        wanted = [self.jobs[handle.job] for handle in handles]
        for job in wanted:
            job.cancelled = True
        waiting = [job for job in wanted if job in self._to_submit]
        self._to_submit = [job for job in self._to_submit if job not in waiting]
        for job in waiting:
            self._apply(job, Decision(ENDED, "cancelled", "cancelled"))
        cancel_runs(self.home, [job.run.id for job in wanted if job.state != ENDED], self._slurm)

    def close(self) -> None:
        """Nothing is held."""

    # --- following ----------------------------------------------------------------------------------------------------

    def _refresh(self) -> bool:
        """Ask SLURM; False when it does not answer. Then nothing is concluded, and nothing is submitted."""
        try:
            refresh(self.home, self._slurm, self._profile.accept_within)
            self._silent = False
        except SchedulerError as error:
            if error.certain and self._refreshed is not None and not self._followed:
                raise  # there is no SLURM here
            if not self._silent:
                self.notices.append(f"SLURM does not answer ({error.what}); asking again every so often")
            self._silent = True
        return not self._silent

    def _follow(self, job: Job) -> None:
        """Bring one job up to date with what its run's directory, and the last answer of SLURM, say."""
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
                self._move(job, state)

    # --- handing over -------------------------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        """Submit what is nobody's; follow what SLURM has already."""
        ready = [job for job in self._to_submit if self._is_free(job)]
        self._to_submit = []
        if not ready:
            return
        by_run = {job.run.id: job for job in ready}
        try:
            size = self._slurm.site().max_array_size
        except SchedulerError as error:
            self._to_submit = ready
            self.notices.append(f"{error.what}; trying again")
            return
        history = History.read(self.home.history)
        expected: Callable[[Run], float | None] = lambda run: history.seconds(run, 0)  # noqa: E731
        for chunk in chunks([job.run for job in ready], self._profile, size, expected):
            self._submit(chunk, [by_run[run.id] for runs in chunk.tasks for run in runs])

    def _submit(self, chunk: Chunk, jobs: list[Job]) -> None:
        """Submit one chunk; whatever happens, each of its jobs ends up followed, to be submitted again, or refused."""
        try:
            submission = submit(self.home, self._slurm, self._profile, chunk, self.slots or 0)
            if submission is not None:
                self.notices.append(
                    f"submitted job {submission.job_id()}: {len(jobs)} runs in {len(chunk.tasks)} tasks"
                )
        except SchedulerError as error:
            if error.passes and self._followed:
                self._not_before = time.monotonic() + LATER
                self.notices.append(f"{error.what}; the rest is submitted when there is room")
            elif error.certain:
                for job in jobs:
                    self._apply(job, Decision(ENDED, REFUSED, error.what))
                return
            else:
                self.notices.append(f"{error.what}; whether SLURM has the job will be seen")
        for job in jobs:
            record = open_record(self.home.run(job.run.id))
            if record is None:
                self._to_submit.append(job)
            else:
                self._adopt(job, record)

    def _is_free(self, job: Job) -> bool:
        """Make the run's directory. Whether the run is to be submitted now; if not, the job is on its way already."""
        try:
            paths = self._setting.create(job.run)
        except PlatError as error:
            outcome = "failed:disk" if isinstance(error, HomeError) else "failed:error"
            self._apply(job, Decision(ENDED, outcome, error.what))
            return False
        record = open_record(paths)
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
        if decision.state != WAITING:
            job.outcome, job.reason = decision.outcome, decision.reason
        self._move(job, decision.state)

    def _move(self, job: Job, state: str) -> None:
        job.state = state
        self._changes.append(job.change())


def open_dispatcher(setting: Setting) -> SlurmDispatcher:
    """For `plat.dispatch.registry`. SpecError for a wrong profile; SchedulerError where there is no SLURM."""
    profile = load_profile(setting.cluster)
    slurm = Slurm(profile.command_timeout)
    slurm.site()
    return SlurmDispatcher(setting, profile, slurm)
