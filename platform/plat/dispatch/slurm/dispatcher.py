"""Hands runs to SLURM and follows them there (a Dispatcher). Nothing here needs to live for a run to go on.

Promised, besides what `plat.dispatch.scheduled` promises: a run is submitted by one submitter only, exactly once
(`submission`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from plat.dispatch.api import ENDED, REFUSED, Job, SchedulerError
from plat.dispatch.cancel import cancel_runs
from plat.dispatch.decisions import Decision
from plat.dispatch.registry import Setting
from plat.dispatch.scheduled import ScheduledDispatcher
from plat.dispatch.slurm.commands import Slurm
from plat.dispatch.slurm.packing import Chunk, chunks
from plat.dispatch.slurm.profile import Profile, load_profile, with_profile_path
from plat.dispatch.slurm.refresh import refresh
from plat.dispatch.slurm.submission import SCHEDULER, submit
from plat.plan.cost import History
from plat.store.submissions import Record, Submission
from plat.units import counted

if TYPE_CHECKING:
    from plat.spec.runs import Run

LATER = 30.0  # seconds until runs above a site's limit are submitted again


class SlurmDispatcher(ScheduledDispatcher):
    """`profile` says how jobs are submitted; `setting.jobs` caps how many tasks of an array run at once."""

    scheduler = SCHEDULER
    farewell = "following no more: what SLURM has goes on there, and the same command follows it again"

    def __init__(self, setting: Setting, profile: Profile, slurm: Slurm) -> None:
        super().__init__(setting, profile.refresh, setting.jobs or profile.max_parallel or None)
        self._profile = profile
        self._slurm = slurm
        self._silent = False  # SLURM did not answer, and that was said

    def close(self) -> None:
        """Nothing is held."""

    def _refresh(self) -> bool:
        try:
            refresh(self.home, self._slurm)
            self._silent = False
        except SchedulerError as error:
            if error.certain and not self._followed:
                raise  # there is no SLURM here
            if not self._silent:
                self.notices.append(f"SLURM does not answer ({error.what}); asking again every so often")
            self._silent = True
        return not self._silent

    def _hand_over(self, ready: list[Job]) -> None:
        by_run = {job.run.id: job for job in ready}
        try:
            size = self._slurm.site().max_array_size
        except SchedulerError as error:
            self._to_submit += ready
            self.notices.append(f"{error.what}; trying again")
            return
        history = History.read(self.home.history)

        def expected_seconds(run: Run) -> float | None:
            return history.seconds(run, 0)

        for chunk in chunks([job.run for job in ready], self._profile, size, expected_seconds):
            self._submit(chunk, [by_run[run.id] for runs in chunk.tasks for run in runs])

    def _submit(self, chunk: Chunk, jobs: list[Job]) -> None:
        """Submit one chunk; whatever happens, each of its jobs ends up followed, to be submitted again, or refused."""
        records: dict[str, Record] = {}
        try:
            records = submit(self.home, self._slurm, self._profile, chunk, self.slots or 0)
            for submission in {record.submission for record in records.values()}:
                size = f"{counted(len(jobs), 'run')} in {counted(len(chunk.tasks), 'task')}"
                self.notices.append(f"submitted job {submission.job_id()}: {size}")
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
        self._adopt_or_put_back(jobs, records)

    def _cancel(self, run_ids: Sequence[str]) -> None:
        """In SLURM's queue and in its jobs."""
        cancel_runs(self.home, run_ids)


def located(cluster: Sequence[str], files: Sequence[Path]) -> Sequence[str]:
    """For `plat.dispatch.registry`. SpecError for a profile that is not there."""
    return with_profile_path(cluster, files)


def check_place(cluster: Sequence[str], detach: bool) -> None:
    """For `plat.dispatch.registry`: SpecError for a wrong profile. SLURM can be left and followed."""
    load_profile(cluster)


def check_reachable(cluster: Sequence[str]) -> None:
    """For `plat.dispatch.registry`: SchedulerError where there is no SLURM, or it does not answer."""
    _slurm(load_profile(cluster))


def end_tasks(tasks: Sequence[tuple[Submission, int]]) -> None:
    """For `plat.dispatch.registry`. SchedulerError when SLURM cannot be asked."""
    jobs = [f"{job_id}_{task}" for submission, task in tasks if (job_id := submission.job_id()) is not None]
    if jobs:
        Slurm().cancel(jobs)


def open_dispatcher(setting: Setting) -> SlurmDispatcher:
    """For `plat.dispatch.registry`. SpecError for a wrong profile; SchedulerError where there is no SLURM."""
    profile = load_profile(setting.cluster)
    return SlurmDispatcher(setting, profile, _slurm(profile))


def _slurm(profile: Profile) -> Slurm:
    """The SLURM of this machine, which has answered once."""
    slurm = Slurm(profile.command_timeout)
    slurm.site()
    return slurm
