"""The contract of a dispatcher, and the jobs and changes that it reports.

A dispatcher is a subclass of `Dispatcher`, published under the entry-point group `plat.dispatchers`.

Only `result.json` makes a run done, not a scheduler's report. A dispatcher waits for runs that another process holds. A
failed run affects no other run. `cancel` and `close` leave every run in a state that the next sweep can resume.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from plat.dispatch.setting import SearchCall, Setting, TaskKey, TaskState, cannot_detach
from plat.errors import PlatError, PluginError, SpecError
from plat.store.coordination.submissions import Submission
from plat.store.home import Home
from plat.words.outcomes import is_result
from plat.words.states import JobState
from plat.words.usage import Rates

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run

QUEUED, RUNNING, WAITING, ENDED = JobState
REFUSED = "refused"  # the outcome of a run that a scheduler does not accept


@dataclass(frozen=True)
class Handle:
    """A submitted run; `job` is the key of its Job in `Dispatcher.jobs`."""

    run_id: str
    job: str


@dataclass(frozen=True)
class Change:
    """A job changed its state.

    job      the handle's `job`; of a preparation (work shared by runs, e.g. a base model) "prepare:<trainer>:<key>"
    kind     "run" or "prepare"
    title    name of the run, or title of the preparation
    state    QUEUED (it will be retried), RUNNING, WAITING (another process has it), ENDED
    outcome  of an ended or retried job: one of `plat.words.outcomes`, REFUSED, or "unknown" (another process or
             scheduler may have the run, which cannot be checked from here)
    reason   one line
    """

    job: str
    kind: str
    title: str
    state: JobState
    outcome: str | None = None
    reason: str = ""


@dataclass(eq=False)
class Job:
    """A run or a preparation as a dispatcher follows it. Fields shared with `Change` mean the same.

    run        the run; of a preparation, the first run that needs it (all of them have the same recipe)
    started    start of the newest attempt, in monotonic seconds; 0 before the first
    seconds    duration of the newest ended attempt; 0 before the first has ended
    tries      number of retries, by failure class
    cancelled  a user cancelled it for good
    place      where a scheduler has it ("job 123_4 on cluster lab"); "" if no scheduler has it
    """

    id: str
    kind: str
    title: str
    run: Run
    state: JobState = QUEUED
    outcome: str | None = None
    reason: str = ""
    started: float = 0.0
    seconds: float = 0.0
    tries: Counter[str] = field(default_factory=Counter)
    cancelled: bool = False
    place: str = ""

    def change(self) -> Change:
        """Return the present state of this job in the form in which `poll` reports changes."""
        return Change(self.id, self.kind, self.title, self.state, self.outcome, self.reason)

    @property
    def has_result(self) -> bool:
        """True if it ended with a result: finished, or stopped early by a rule."""
        return self.state == ENDED and is_result(self.outcome)


class SchedulerError(PlatError):
    """A scheduler cannot be asked, or refuses.

    certain  nothing was submitted: the scheduler has refused, or is not installed here. False: it may have the job
    passes   a limit on the number of jobs was reached; a later submission may be accepted
    """

    def __init__(self, what: str, *, certain: bool = False, passes: bool = False, **place: str | None) -> None:
        super().__init__(what, **place)
        self.certain = certain
        self.passes = passes


class Dispatcher(ABC):
    """A way to execute runs. plat asks the class, then opens one with `open`; the driver calls it from one thread.

    on_this_machine      this machine executes the runs; False for a scheduler, which may also have runs of other sweeps
    detaches_by_default  a sweep returns as soon as the scheduler has its runs, unless `--wait` is given
    executes_searches    `open_search` opens a whole search; else the command asks for its trials
    farewell             explains the effect of `stop`; shown to the user after Ctrl-C
    detachable           jobs continue after this process ends; `handed_over` then tells when it may end
    slots                number of jobs that run at the same time; None until `submit` has decided it
    jobs                 all jobs so far, ended ones included, by `Job.id`; the id of a run's job must be the run's id
    stopping             may be set from outside at any moment (by a signal handler); then nothing more is started
    notices              lines to show to the user; the driver shows and removes them
    """

    on_this_machine: ClassVar[bool] = True
    detaches_by_default: ClassVar[bool] = False
    executes_searches: ClassVar[bool] = False
    farewell = ""
    detachable = False
    slots: int | None
    jobs: Mapping[str, Job]

    def __init__(self, setting: Setting) -> None:
        self.home = setting.home
        self.slots = setting.jobs
        self.jobs = {}
        self.stopping = False
        self.notices: list[str] = []

    @classmethod
    def open(cls, setting: Setting) -> Dispatcher:
        """Return a dispatcher. Raises SpecError for wrong settings, and SchedulerError if it cannot be used here."""
        return cls(setting)

    @classmethod
    def located(cls, cluster: Sequence[str], files: Sequence[Path]) -> Sequence[str]:
        """Return the `cluster` settings with names of files replaced by their paths.

        A file may lie beside the experiment files `files`. Raises SpecError if it is not found.
        """
        return cluster

    @classmethod
    def rates(cls, cluster: Sequence[str]) -> Rates | None:
        """Return what the user pays, if these settings say it. Raises SpecError for wrong settings."""
        return None

    @classmethod
    def check_settings(cls, cluster: Sequence[str], detach: bool) -> None:
        """Raise SpecError for unsupported settings; write nothing. By default all of them are unsupported."""
        if cluster:
            raise SpecError(
                f"{cluster[0]} chooses where a scheduler executes runs, and this dispatcher has no scheduler",
                where="the command line",
                fix="add --on slurm (or another scheduler), or leave cluster... out",
            )
        if detach:
            raise cannot_detach()

    @classmethod  # noqa: B027
    def check_reachable(cls, cluster: Sequence[str]) -> None:
        """Raise SchedulerError if the scheduler does not answer; write nothing."""

    @classmethod
    def task_states(cls, home: Home, note: bool) -> Mapping[TaskKey, TaskState]:
        """Return the states of the tasks of open submissions; with `note`, record in the home which are over."""
        return {}

    @classmethod  # noqa: B027
    def end_tasks(cls, tasks: Sequence[tuple[Submission, int]]) -> None:
        """End these tasks of submissions; none of their runs is wanted any more."""

    @classmethod
    def open_search(cls, setting: Setting, search: SearchCall) -> Dispatcher:
        """Return a dispatcher that executes a whole search by itself, and follows its runs; raises as `open` does.

        Raises PluginError if the class sets executes_searches and does not override this.
        """
        what = f"the dispatcher {cls.__name__} sets executes_searches and has no open_search"
        raise PluginError(what, fix="write open_search, or leave executes_searches out: plat then asks for the trials")

    @abstractmethod
    def submit(self, runs: Sequence[Run]) -> list[Handle]:
        """Queue runs, in this order, and prepare to start them. May raise PlatError if they cannot run here."""

    @abstractmethod
    def poll(self, timeout: float = 0.0) -> list[Change]:
        """Start ready jobs, wait at most `timeout` seconds for changes, and return them."""

    @abstractmethod
    def active(self) -> bool:
        """Return True while there is something left to poll for."""

    def handed_over(self) -> bool:
        """Return True if this process may end, because a scheduler has every run that has not ended."""
        return not self.active()

    @abstractmethod
    def stop(self) -> None:
        """Start nothing more. Ask jobs that need this process to save and stop; jobs of a scheduler continue."""

    @abstractmethod
    def kill(self) -> None:
        """End jobs that need this process at once; the next sweep resumes from the newest checkpoints."""

    @abstractmethod
    def cancel(self, handles: Sequence[Handle]) -> None:
        """Cancel these runs for good (outcome "cancelled"); runs that have not started are dropped."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; ask running jobs to stop. Do not set `stopping`: that is an interruption."""
