"""Where runs are executed: `--on`, `--detach`, and the `cluster=` arguments, which are no part of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plat.cli.output import tell
from plat.errors import SpecError

if TYPE_CHECKING:
    from plat.spec.experiment import Run
    from plat.store.home import Home

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
    cluster  `cluster=NAME` and `cluster.KEY=VALUE`, with the path of the profile in place of its name
    detach   leave the runs to a scheduler as soon as it has them
    """

    on: str = "local"
    cluster: tuple[str, ...] = ()
    detach: bool = False

    @property
    def is_here(self) -> bool:
        """Whether this machine executes the runs."""
        return self.on == "local"


def chosen_place(arguments: Sequence[str] | None, on: str, wait: bool | None) -> Place:
    """From the options and arguments of a verb; SpecError for what no dispatcher can do."""
    from plat.dispatch.registry import LEAVES, check_place, located

    detach = on in LEAVES if wait is None else not wait
    given = [text for text in arguments or () if is_cluster_argument(text)]
    files = [Path(text) for text in arguments or () if text not in given and text.endswith((".yaml", ".yml"))]
    cluster = located(on, given, files)
    check_place(on, cluster, detach)
    return Place(on, cluster, detach)


def is_cluster_argument(text: str) -> bool:
    """Whether an argument says how a scheduler is to be used, and nothing about a run."""
    return text.startswith(("cluster=", "cluster."))


def warn_of_machine(runs: Sequence[Run], home: Home) -> None:
    """Say on stderr where this machine is too small for one of these runs, which another place may execute."""
    from plat.plan.check import check_machine

    try:
        check_machine(runs, home)
    except SpecError as error:
        tell(f"warning: not on this machine: {error.what} (fix: {error.mend})")
