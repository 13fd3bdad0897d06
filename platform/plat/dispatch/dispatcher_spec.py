"""The contract of a dispatcher plug-in: a `DispatcherSpec` under the entry-point group `plat.dispatchers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.dispatch.dispatcher import Dispatcher
from plat.errors import SpecError
from plat.store.coordination.submissions import Submission
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths
from plat.words.states import Phase

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run

PENDING, RUNNING, OVER, UNKNOWN = Phase
TaskKey = tuple[str, int]  # name of a submission, index of a task in it


@dataclass(frozen=True)
class TaskState:
    """The state of a task as its scheduler reports it.

    phase     PENDING, RUNNING, OVER or UNKNOWN
    in_words  the scheduler's own words, for people: "SLURM says PENDING"
    outcome   of a task that is over, for runs that recorded none; None if the scheduler does not report one
    """

    phase: Phase
    in_words: str
    outcome: str | None = None


@dataclass(frozen=True)
class Setting:
    """The arguments with which every dispatcher is opened.

    create       makes a run's directory; call it before the run is started or handed to a scheduler
    jobs         number of runs at the same time; None: as many as the dispatcher allows
    steal        take over runs whose lease cannot be checked from this machine
    stall_after  seconds without an event after which a run is ended as stalled; None: the trainer's default
    cluster      `cluster=NAME` and `cluster.KEY=VALUE` of the command line, as written
    """

    home: Home
    create: Callable[[Run], RunPaths]
    jobs: int | None = None
    steal: bool = False
    stall_after: float | None = None
    cluster: Sequence[str] = ()


def check_no_settings(cluster: Sequence[str], detach: bool) -> None:
    """Raise SpecError for any `cluster` setting, and for `detach`: runs have no cluster, and need this process."""
    if cluster:
        raise SpecError(
            f"{cluster[0]} chooses where a scheduler executes runs, and this dispatcher has no scheduler",
            where="the command line",
            fix="add --on slurm (or another scheduler), or leave cluster... out",
        )
    if detach:
        raise cannot_detach()


@dataclass(frozen=True)
class DispatcherSpec:
    """The functions of a dispatcher. Only `open_dispatcher` is required; functions are called by position.

    open_dispatcher      (setting): the dispatcher; SpecError for wrong settings, SchedulerError if it cannot be used
    located              (cluster, files): the `cluster` settings with names of files replaced by their paths; a file
                         may lie beside the experiment files `files`
    check_settings       (cluster, detach): SpecError for unsupported settings (default: for all); nothing is written
    check_reachable      (cluster): SchedulerError if the scheduler does not answer; nothing is written
    end_tasks            (tasks): end these tasks of submissions; none of their runs is wanted any more
    task_states          (home, note): the states of the tasks of open submissions; with `note`, record in the home
                         which tasks are over
    open_search          (setting, search): a dispatcher that executes a whole search by
                         itself, and follows its runs; None: the command asks for the trials
    on_this_machine      this machine executes the runs; False for a scheduler, which may also have runs of other sweeps
    detaches_by_default  a sweep returns as soon as the scheduler has its runs, unless `--wait` is given
    """

    open_dispatcher: Callable[[Setting], Dispatcher]
    located: Callable[[Sequence[str], Sequence[Path]], Sequence[str]] = lambda cluster, files: cluster
    check_settings: Callable[[Sequence[str], bool], None] = check_no_settings
    check_reachable: Callable[[Sequence[str]], None] = lambda cluster: None
    end_tasks: Callable[[Sequence[tuple[Submission, int]]], None] = lambda tasks: None
    task_states: Callable[[Home, bool], Mapping[TaskKey, TaskState]] = lambda home, note: {}
    open_search: Callable[[Setting, SearchCall], Dispatcher] | None = None
    on_this_machine: bool = True
    detaches_by_default: bool = False


def cannot_detach() -> SpecError:
    """Return the error for `--detach` with a dispatcher whose runs need this process."""
    return SpecError(
        "runs of this dispatcher end when the command that started them ends, so it cannot detach",
        where="--detach",
        fix="leave --detach out, or hand the runs to a scheduler (--on slurm, or --on ray with RAY_ADDRESS)",
    )


# What a dispatcher is told of a search that it executes by itself.

STOP = "stop"  # file in the folder of a submission: its runs are to save and stop


@dataclass(frozen=True)
class SearchCall:
    """A search as another process of this home reads it again.

    name       of the study; unique in the home
    file       absolute path of the search file
    overrides  those of the command line
    resources  of its first run, as the trainer states them
    """

    name: str
    file: str
    overrides: tuple[str, ...]
    resources: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The name under which a submission has the search, in the place of a run's id: no run is called so."""
        return search_id(self.name)


def search_id(name: str) -> str:
    """Return the `SearchCall.id` of the study of this name."""
    return f"search:{name}"
