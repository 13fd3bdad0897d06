"""What the nodes of a Ray cluster can take of what runs ask for."""

from __future__ import annotations

from collections.abc import Sequence

from plat.dispatch.ray.client import Node
from plat.trainer.resources import Resources
from plat.units import counted


def able_nodes(needed: Resources, nodes: Sequence[Node]) -> list[Node]:
    """The nodes that have the GPUs and the memory; more threads than CPUs do no harm."""
    return [node for node in nodes if node.gpus >= needed.gpus and node.memory >= needed.memory_mb * 2**20]


def never_fits(needed: Resources, nodes: Sequence[Node]) -> str:
    """Why the cluster can never do a run that needs this; "" when it can."""
    with_gpus = [node for node in nodes if node.gpus >= needed.gpus]
    if not with_gpus:
        most = max((node.gpus for node in nodes), default=0)
        return f"it asks for {counted(needed.gpus, 'GPU')}, and no node of the Ray cluster has more than {most:g}"
    able = able_nodes(needed, nodes)
    if not able:
        return f"it asks for {needed.memory_mb} MiB of memory, and no node of the Ray cluster has so much"
    if len(able) < needed.nodes:
        return f"it asks for {needed.nodes} nodes, and the Ray cluster has {len(able)} that can have a part of it"
    return ""


def cpus_each(needed: Resources, nodes: Sequence[Node]) -> float:
    """The CPUs that each of the nodes of one run can have at most; 1 where too few nodes have its GPUs and memory."""
    most = sorted((node.cpus for node in able_nodes(needed, nodes)), reverse=True)
    return most[needed.nodes - 1] if len(most) >= needed.nodes else 1.0


def room_for_runs(needed: Sequence[Resources], nodes: Sequence[Node]) -> int:
    """How many runs the nodes do at once if each asks for the most that any does; an estimate from CPUs alone."""
    threads, most_nodes = max(each.threads for each in needed), max(each.nodes for each in needed)
    return max(1, sum(int(node.cpus // threads) for node in nodes) // most_nodes)
