"""Hand runs to SLURM and follow them there (a Dispatcher). Runs continue without this process.

Keeps the promises of `plat.dispatch.scheduled`. A run is submitted by one submitter only, exactly once (`submission`).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from plat.dispatch.decisions import Decision
from plat.dispatch.dispatcher import ENDED, REFUSED, Dispatcher, Job, SchedulerError
from plat.dispatch.scheduled import ScheduledDispatcher
from plat.dispatch.setting import Setting, TaskKey, TaskState
from plat.dispatch.slurm.commands import Slurm
from plat.dispatch.slurm.profile import OLD, Profile, load_profile, with_profile_path
from plat.dispatch.slurm.slurm_refresh import command_timeout, refresh, task_states
from plat.dispatch.slurm.submission import SCHEDULER, submit, task_name
from plat.dispatch.submitting import Chunk, chunks, runs_worth
from plat.planning.cost import History
from plat.spec.composition.schema import select
from plat.store.coordination.submissions import Record, Submission, open_record
from plat.store.home import Home
from plat.trainer.resources import Resources
from plat.units import counted
from plat.words.usage import Rates

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run

LATER = 30.0  # seconds until runs above a site's limit are submitted again
WORTH_A_TASK = 600.0  # seconds of work that justify starting a task; shorter runs share one
MOST_IN_A_TASK = 32  # limits how many runs one lost node interrupts
MOST_DOUBTS = 3  # calls of sbatch without a clear answer, each of which has left no job, until a run is refused
MOST_ARRAYS = 3  # tasks get more runs before there are more arrays


class SlurmDispatcher(ScheduledDispatcher):
    """Dispatcher for SLURM under `profile`; `setting.jobs` caps how many tasks of an array run at once."""

    scheduler = SCHEDULER
    detaches_by_default = True
    farewell = "stopped following: the runs that SLURM has continue, and the same command follows them again"

    def __init__(self, setting: Setting, profile: Profile, slurm: Slurm) -> None:
        super().__init__(setting, profile.refresh)
        self.slots = setting.jobs or profile.slurm_array_parallelism or None
        self._profile = profile
        self._slurm = slurm
        self._doubts: Counter[str] = Counter()  # by run: calls of sbatch without a clear answer
        self._doubt = ""  # the newest of them
        self._silent = False  # SLURM did not answer, and a notice was shown
        if profile.old_names:
            pairs = ", ".join(f"{name} is {OLD[name]}" for name in dict.fromkeys(profile.old_names))
            self.notices.append(f"profile {profile.name}: in submitit's names {pairs} (the old names still work)")

    @classmethod
    def open(cls, setting: Setting) -> Dispatcher:
        """Open SLURM under the chosen profile; raise SpecError if it is wrong, SchedulerError if there is no SLURM."""
        profile = load_profile(setting.cluster)
        return cls(setting, profile, _slurm(profile))

    @classmethod
    def located(cls, cluster: Sequence[str], files: Sequence[Path]) -> Sequence[str]:
        """Return the settings with the path of a profile's file in the place of its name."""
        return with_profile_path(cluster, files)

    @classmethod
    def rates(cls, cluster: Sequence[str]) -> Rates | None:
        """Return `cost` of the profile. Raises SpecError for a wrong profile."""
        return load_profile(cluster).cost

    @classmethod
    def check_settings(cls, cluster: Sequence[str], detach: bool) -> None:
        """Raise SpecError for a wrong profile. `detach` is supported."""
        load_profile(cluster)

    @classmethod
    def check_reachable(cls, cluster: Sequence[str]) -> None:
        """Raise SchedulerError if there is no SLURM or it does not answer, SpecError if the profile is wrong."""
        _slurm(load_profile(cluster))

    @classmethod
    def end_tasks(cls, tasks: Sequence[tuple[Submission, int]]) -> None:
        """Cancel these tasks; skip submissions without a job in SLURM.

        Raises SchedulerError if SLURM cannot be asked, or if a task is on another cluster than this machine's.
        """
        slurm = Slurm(command_timeout(submission for submission, _ in tasks))
        for home in {submission.home for submission, _ in tasks if submission.job_id() is None}:
            refresh(home, slurm)  # a number may be unknown, or damaged
        numbers = [
            (submission, name) for submission, task in tasks if (name := task_name(submission, task)) is not None
        ]
        if not numbers:
            return
        here = slurm.site().cluster
        placed = [(name, str(submission.facts().get("cluster", here))) for submission, name in numbers]
        if jobs := [name for name, cluster in placed if cluster == here]:
            slurm.cancel(jobs)
        for name, cluster in placed:
            if cluster != here:
                place = f"on the cluster {cluster}, and this machine's SLURM is {here}"
                raise SchedulerError(
                    f"the job {name} is {place}: it is not cancelled",
                    fix=f"give the command on {cluster}; until then its runs are marked as cancelled",
                )

    @classmethod
    def task_states(cls, home: Home, note: bool) -> Mapping[TaskKey, TaskState]:
        """Return SLURM's states of its tasks; empty if it does not answer."""
        return task_states(home, note)

    def _refresh(self) -> bool:
        try:
            if in_vain := refresh(self.home, self._slurm).in_vain:
                tasks = counted(in_vain, "task")
                self.notices.append(f"{tasks} started in vain (the submitter was killed); plat submits the runs again")
            self._silent = False
        except SchedulerError as error:
            if error.certain and not self._followed:
                raise  # there is no SLURM here
            if not self._silent:
                self.notices.append(f"SLURM does not answer ({error.what}); plat asks again from time to time")
            self._silent = True
        return not self._silent

    def _hand_over(self, ready: list[Job]) -> None:
        for job in [job for job in ready if self._doubts[job.id] >= MOST_DOUBTS]:
            ready.remove(job)
            why = f"sbatch gave no clear answer {MOST_DOUBTS} times, and SLURM has none of these jobs ({self._doubt})"
            self._apply(job, Decision(ENDED, REFUSED, f"{why}: see what `sbatch --wrap true` says here"))
        by_run = {job.run.id: job for job in ready}
        try:
            size = self._slurm.site().max_array_size
        except SchedulerError as error:
            self._to_submit += ready
            self.notices.append(f"{error.what}; trying again")
            return
        seconds = History.read(self.home.history).seconds
        for chunk in slurm_chunks([job.run for job in ready], self._profile, size, lambda run: seconds(run, 0)):
            self._submit(chunk, [by_run[run.id] for runs in chunk.tasks for run in runs])

    def _submit(self, chunk: Chunk, jobs: list[Job]) -> None:
        """Submit one chunk. Each of its jobs ends up followed, queued to be submitted again, or refused."""
        records: dict[str, Record] = {}
        try:
            records = submit(self.home, self._slurm, self._profile, chunk, self.slots or 0)
            if records:  # sbatch has answered
                self._doubts.clear()
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
                has_been_called = [job for job in jobs if open_record(self.home.run(job.run.id)) is not None]
                self._doubts.update(job.id for job in has_been_called)
                self._doubt = error.what
                self.notices.append(f"{error.what}; plat will check later whether SLURM has the job")
        self._adopt_or_put_back(jobs, records)


def slurm_chunks(
    runs: Sequence[Run], profile: Profile, max_array_size: int, seconds: Callable[[Run], float | None]
) -> list[Chunk]:
    """Return all runs in chunks, each for one job array. The runs of a chunk request the same resources.

    Short runs share a task, unless `profile.runs_per_task` sets how many do. Time limits are not checked.

    max_array_size  the most tasks in a chunk
    seconds         the expected seconds of a run, None if unknown; it only decides how many runs share a task
    """

    def needed(run: Run) -> Resources:
        return profile.resources(run.resources, str(select(run.config, "model.name") or ""))

    def size(members: Sequence[Run]) -> int:
        if profile.runs_per_task:
            return profile.runs_per_task
        worth = min(MOST_IN_A_TASK, runs_worth(members, seconds, WORTH_A_TASK * profile.runs_at_once))
        return max(worth, math.ceil(len(members) / (MOST_ARRAYS * max_array_size)))

    return chunks(runs, needed, size, max_array_size)


def _slurm(profile: Profile) -> Slurm:
    """Return the SLURM of this machine, after it has answered once."""
    slurm = Slurm(profile.command_timeout)
    slurm.site()
    slurm.check_installed("srun")  # submitit asks for it
    return slurm
