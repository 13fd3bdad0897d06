"""The resources that verl reserves on the nodes of a Ray cluster, and a bounded wait for them.

verl waits for its reservations silently and without limit, so they are checked before verl starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plat.errors import RunError
from plat.units import counted
from plat_rl.verl.settings.models import workers
from plat_rl.verl.settings.verl_config import VerlRunConfig

CPUS_OF_A_WORKER = 3  # CPUs that verl reserves for each GPU
CPUS_BESIDE = 8  # for servers, agent workers and TransferQueue
TICK = 0.5  # seconds between two polls of Ray


@dataclass(frozen=True)
class Reservation:
    """A number of nodes, and the GPUs and CPUs reserved on each."""

    nodes: int
    gpus: int
    cpus: int

    def fits(self, resources: Mapping[str, float]) -> bool:
        """Return True if a node with these resources, as Ray lists them, has the GPUs and CPUs."""
        return resources.get("GPU", 0) >= self.gpus and resources.get("CPU", 0) >= self.cpus


def reservation_of(config: VerlRunConfig) -> Reservation:
    """Return the nodes that verl needs for this run, and the GPUs and CPUs that it reserves on each.

    Each training process of a node takes one GPU and `CPUS_OF_A_WORKER` CPUs. Raises SpecError if the model does not
    fit into the largest number of GPUs.
    """
    return Reservation(config.verl.nodes, workers(config), CPUS_OF_A_WORKER * workers(config))


def wait_for_nodes(
    needed: Reservation,
    nodes: Callable[[], Sequence[Mapping[str, Any]]],
    within: float,
    still_coming: Callable[[], bool] = lambda: True,
) -> None:
    """Return when enough nodes have what the reservation needs.

    nodes         returns the nodes of the cluster as Ray lists them: {"Alive", "Resources", ...}
    within        seconds to wait
    still_coming  returns False if no further node will join

    Raises RunError, with what is missing, after `within` seconds or as soon as no further node will join.
    """
    started = time.monotonic()
    while True:
        last = time.monotonic() - started >= within or not still_coming()
        alive = [node["Resources"] for node in nodes() if node["Alive"]]
        if sum(map(needed.fits, alive)) >= needed.nodes:
            return
        if last:
            raise _too_small(needed, alive, time.monotonic() - started)
        time.sleep(TICK)


def _too_small(needed: Reservation, alive: Sequence[Mapping[str, float]], waited: float) -> RunError:
    each = "each " if needed.nodes > 1 else ""
    there = "; ".join(_counts(node.get("GPU", 0), node.get("CPU", 0)) for node in alive) or "nothing"
    missing = len(alive) < needed.nodes
    return RunError(
        f"verl needs {counted(needed.nodes, 'node')} {each}with {_counts(needed.gpus, needed.cpus)}; "
        f"after {waited:.0f} s the Ray cluster has {counted(len(alive), 'node')}: {there}",
        failure_class="node" if missing else "error",
        fix=_what_to_do(needed, alive, missing),
    )


def _counts(gpus: float, cpus: float) -> str:
    return f"{counted(int(gpus), 'GPU')} and {counted(int(cpus), 'CPU')}"


def _what_to_do(needed: Reservation, alive: Sequence[Mapping[str, float]], missing: bool) -> str:
    if missing:
        return "the run's log says why the other nodes did not join; on an existing cluster, start Ray on these nodes"
    if sum(node.get("GPU", 0) >= needed.gpus for node in alive) >= needed.nodes:
        return (
            f"ask for at least {needed.cpus} CPUs on each node ({CPUS_OF_A_WORKER} for each training process): "
            f"cluster.threads={needed.cpus} with --on slurm, --num-cpus of `ray start`; or set fewer verl.workers"
        )
    return f"ask for {counted(needed.gpus, 'GPU')} on each node (cluster.gpus={needed.gpus}), or set fewer verl.workers"
