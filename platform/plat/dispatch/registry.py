"""The dispatchers that there are, by the name that `--on` takes. A dispatcher's module is imported when it is used.

To add one: a line in DISPATCHERS, and a module with `open_dispatcher(setting) -> Dispatcher`,
`located(cluster, files)`, `check_place(cluster, detach)` and `check_reachable(cluster)`. A scheduler that keeps
submissions also has `end_tasks(tasks)` there, and a line in SCHEDULERS with a module that has
`task_states(home, note)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.dispatch.api import Dispatcher
from plat.errors import SpecError
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths
from plat.store.submissions import Submission
from plat.suggest import mend

if TYPE_CHECKING:
    from plat.dispatch.schedulers import TaskKey, TaskState
    from plat.spec.runs import Run

LOCAL = "local"
DISPATCHERS = {
    LOCAL: "plat.dispatch.local.dispatcher",
    "slurm": "plat.dispatch.slurm.dispatcher",
    "ray": "plat.dispatch.ray.dispatcher",
}
SCHEDULERS = {"ray": "plat.dispatch.ray.refresh", "slurm": "plat.dispatch.slurm.refresh"}
LEAVES = ("slurm",)  # by default a sweep leaves its runs to these as soon as they have them


@dataclass(frozen=True)
class Setting:
    """What every dispatcher is opened with.

    create       makes a run's directory; to be called before the run is started or handed to a scheduler
    jobs         runs at once; None for as many as the place allows
    steal        take over runs whose lease cannot be checked from here
    stall_after  seconds without an event after which a run is ended as stalled; None: as its trainer says
    cluster      the command line's `cluster=NAME` and `cluster.KEY=VALUE`, as they were written
    """

    home: Home
    create: Callable[[Run], RunPaths]
    jobs: int | None = None
    steal: bool = False
    stall_after: float | None = None
    cluster: Sequence[str] = ()


def check_name(name: str) -> str:
    """The name of a dispatcher; SpecError when there is none of that name."""
    if name not in DISPATCHERS:
        raise SpecError(f"unknown dispatcher {name!r}", where="--on", mend=mend(name, DISPATCHERS, "one of"))
    return name


def located(name: str, cluster: Sequence[str], files: Sequence[Path]) -> tuple[str, ...]:
    """The settings of a dispatcher, what they name with its place; it may lie beside these experiment files."""
    return tuple(_module(name).located(cluster, files))


def check_place(name: str, cluster: Sequence[str], detach: bool) -> None:
    """SpecError, before anything is made, for what this dispatcher cannot be asked for."""
    _module(name).check_place(cluster, detach)


def check_reachable(name: str, cluster: Sequence[str]) -> None:
    """SchedulerError where what this dispatcher hands runs to does not answer. Writes nothing."""
    _module(name).check_reachable(cluster)


def end_tasks(name: str, tasks: Sequence[tuple[Submission, int]]) -> None:
    """Let a scheduler end these tasks of submissions, none of whose runs is wanted any more."""
    _module(name).end_tasks(tasks)


def task_states(name: str, home: Home, note: bool) -> Mapping[TaskKey, TaskState]:
    """How the tasks stand that a scheduler has of a home; with `note`, what is over is written into the home."""
    states: Mapping[TaskKey, TaskState] = import_module(SCHEDULERS[name]).task_states(home, note)
    return states


def cannot_detach(name: str) -> SpecError:
    """What to say where runs are to be left to a dispatcher that needs this process."""
    return SpecError(
        f"runs on {name!r} end with the command that started them, so it cannot leave them",
        where="--detach",
        mend="leave --detach out, or hand the runs to a scheduler (--on slurm, or --on ray with RAY_ADDRESS)",
    )


def open_dispatcher(name: str, setting: Setting) -> Dispatcher:
    """The dispatcher of this name; SpecError when there is none, or when it cannot be used here."""
    dispatcher: Dispatcher = _module(name).open_dispatcher(setting)
    return dispatcher


def _module(name: str) -> Any:
    return import_module(DISPATCHERS[check_name(name)])
