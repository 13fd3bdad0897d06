"""Where runs are executed: `--on`, `--detach`, and the `cluster=` arguments, which are no part of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from plat.store.home import Home
from plat.store.run_directory.state import RunState
from plat.store.submissions import newest_record

if TYPE_CHECKING:
    from plat.dispatch.slurm.refresh import Snapshot

OnOption = Annotated[
    str, typer.Option("--on", metavar="NAME", help="Where to run: local (this machine), slurm or ray (see docs).")
]
WaitOption = Annotated[
    bool | None,
    typer.Option(
        "--wait/--detach", help="Follow the runs to their end, or leave them to the scheduler [slurm: --detach]."
    ),
]


@dataclass(frozen=True)
class Place:
    """Where the missing runs of a verb go.

    on       the name of a dispatcher
    cluster  `cluster=NAME` and `cluster.KEY=VALUE`, as they were written
    detach   leave the runs to a scheduler as soon as it has them
    """

    on: str = "local"
    cluster: tuple[str, ...] = ()
    detach: bool = False


def chosen_place(arguments: Sequence[str] | None, on: str, wait: bool | None) -> Place:
    """From the options and arguments of a verb; SpecError for what no dispatcher can do."""
    from plat.dispatch.registry import LEAVES, check_place

    detach = on in LEAVES if wait is None else not wait
    cluster = tuple(text for text in arguments or () if is_cluster_argument(text))
    check_place(on, cluster, detach)
    return Place(on, cluster, detach)


def is_cluster_argument(text: str) -> bool:
    """Whether an argument says how a scheduler is to be used, and nothing about a run."""
    return text.startswith(("cluster=", "cluster."))


def ask_schedulers(home: Home, *, note: bool = True) -> Snapshot | None:
    """What has become of the runs that schedulers have; with `note`, the home remembers what is over.

    None when there is nothing to ask about. A scheduler that does not answer changes nothing.
    """
    if not home.submissions.is_dir():
        return None
    from plat.dispatch.ray.refresh import note_lost_clusters
    from plat.dispatch.slurm.refresh import ask_if_any, refresh_if_any

    if not note:
        return ask_if_any(home)
    note_lost_clusters(home)
    return refresh_if_any(home)


def corrected(home: Home, run_id: str, state: RunState, snapshot: Snapshot | None) -> RunState:
    """The state of a run that a scheduler has, where the scheduler knows more than the run's own files.

    A lease written on another machine cannot be checked from here, so a run seems to go on there while its job waits
    for its next turn, or is over.
    """
    if snapshot is None or state.state not in ("running", "queued"):
        return state
    from plat.dispatch.slurm.states import OVER, PENDING

    record = newest_record(home.run(run_id))
    if record is None or state.reason != record.place:  # it runs here
        return state
    task = snapshot.tasks.get((record.submission.name, record.task))
    if task is not None and task.phase == PENDING:
        return replace(state, state="queued")
    if task is not None and task.phase == OVER:
        return replace(state, state="interrupted" if state.attempt else "missing", reason=task.in_words)
    return state
