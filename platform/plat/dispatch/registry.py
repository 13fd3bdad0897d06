"""The dispatchers that there are, by the name that `--on` takes. A dispatcher's module is imported when it is used.

To add one: a module with `open_dispatcher(setting) -> Dispatcher`, and a line in DISPATCHERS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from plat.dispatch.api import STALL_AFTER, Dispatcher
from plat.errors import SpecError
from plat.store.home import Home, RunPaths
from plat.suggest import mend

if TYPE_CHECKING:
    from plat.spec.runs import Run

LOCAL = "local"
DISPATCHERS = {
    LOCAL: "plat.dispatch.local.dispatcher",
    "slurm": "plat.dispatch.slurm.dispatcher",
    "ray": "plat.dispatch.ray.dispatcher",
}
LEAVES = ("slurm",)  # by default a sweep leaves its runs to these as soon as they have them


@dataclass(frozen=True)
class Setting:
    """What every dispatcher is opened with.

    create       makes a run's directory; to be called before the run is started or handed to a scheduler
    jobs         runs at once; None for as many as the place allows
    steal        take over runs whose lease cannot be checked from here
    stall_after  seconds without an event after which a run is ended as stalled
    cluster      the command line's `cluster=NAME` and `cluster.KEY=VALUE`, as they were written
    """

    home: Home
    create: Callable[[Run], RunPaths]
    jobs: int | None = None
    steal: bool = False
    stall_after: float = STALL_AFTER
    cluster: Sequence[str] = ()


def check_name(name: str) -> str:
    """The name of a dispatcher; SpecError when there is none of that name."""
    if name not in DISPATCHERS:
        raise SpecError(f"unknown dispatcher {name!r}", where="--on", mend=mend(name, DISPATCHERS, "one of"))
    return name


def check_place(name: str, cluster: Sequence[str], detach: bool) -> None:
    """SpecError, before anything is made, for what this dispatcher cannot be asked for."""
    if check_name(name) == LOCAL:
        if cluster:
            raise SpecError(
                "cluster=NAME chooses where a scheduler executes runs, and these are executed on this machine",
                where="the command line",
                mend="add --on slurm, or leave cluster=... out",
            )
        if detach:
            raise cannot_detach(name)
    elif name == "slurm":
        from plat.dispatch.slurm.profile import load_profile

        load_profile(cluster)
    elif name == "ray":
        from plat.dispatch.ray.settings import read_settings

        if read_settings(cluster).is_local and detach:
            raise cannot_detach(name)


def cannot_detach(name: str) -> SpecError:
    """What to say where runs are to be left to a dispatcher that needs this process."""
    return SpecError(
        f"runs on {name!r} end with the command that started them, so it cannot leave them",
        where="--detach",
        mend="leave --detach out, or hand the runs to a scheduler (--on slurm, or --on ray with RAY_ADDRESS)",
    )


def open_dispatcher(name: str, setting: Setting) -> Dispatcher:
    """The dispatcher of this name; SpecError when there is none, or when it cannot be used here."""
    build = import_module(DISPATCHERS[check_name(name)]).open_dispatcher
    dispatcher: Dispatcher = build(setting)
    return dispatcher
