"""What a dispatcher is opened with, and what it says of the tasks of a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
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


def cannot_detach() -> SpecError:
    """Return the error for `--detach` with a dispatcher whose runs need this process."""
    return SpecError(
        "runs of this dispatcher end when the command that started them ends, so it cannot detach",
        where="--detach",
        fix="leave --detach out, or hand the runs to a scheduler (--on slurm, or --on ray with RAY_ADDRESS)",
    )


STOP = "stop"  # file in the folder of a submission: its runs are to save and stop


@dataclass(frozen=True)
class SearchCall:
    """A search that a dispatcher executes by itself, as another process of this home reads it again.

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
