"""A Ray cluster: its nodes, and what can never run on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plat.trainer.resources import Resources
from plat.units import counted

Node = Mapping[str, float]  # the resources of a node: "CPU", "GPU", and "memory" in bytes


@dataclass(frozen=True)
class Cluster:
    """A cluster as it was at the time of the connection.

    session  identifies the cluster (the id of its head node); differs from an earlier cluster at the same address
    address  HOST:PORT
    nodes    those that are alive
    owner    the process with which a private Ray ends; {} for a cluster
    """

    session: str
    address: str
    nodes: tuple[Node, ...]
    owner: Mapping[str, Any]

    def never_fits(self, needed: Resources) -> str:
        """Return the reason why the cluster can never execute a run with these needs; "" if it can.

        Compares GPUs, memory and the number of nodes. CPUs do not count: a run may ask for more threads than a node
        has.
        """
        if not any(node.get("GPU", 0.0) >= needed.gpus for node in self.nodes):
            most = max((node.get("GPU", 0.0) for node in self.nodes), default=0)
            return f"it asks for {counted(needed.gpus, 'GPU')}, and no node of the Ray cluster has more than {most:g}"
        able = len(self._able_nodes(needed))
        if not able:
            return f"it asks for {needed.memory_mb} MiB of memory, and no node of the Ray cluster has that much"
        if able < needed.nodes:
            return f"it asks for {needed.nodes} nodes, and only {able} of the Ray cluster can take a part of it"
        return ""

    def cpus_each(self, needed: Resources) -> float:
        """Return the most CPUs that a run can have on each of its `needed.nodes` nodes.

        Returns 1 if fewer nodes have its GPUs and memory.
        """
        most = sorted((node.get("CPU", 0.0) for node in self._able_nodes(needed)), reverse=True)
        return most[needed.nodes - 1] if len(most) >= needed.nodes else 1.0

    def request(self, needed: Resources, elastic: bool) -> dict[str, float]:
        """Return what a task requests on each of its "nodes", as Ray names it; `elastic`: all CPUs that it wants."""
        cpus = needed.threads if elastic else min(needed.threads, self.cpus_each(needed))
        return {"CPU": cpus, "GPU": needed.gpus, "memory": needed.memory_mb * 2**20, "nodes": needed.nodes}

    def room_for(self, needed: Sequence[Resources]) -> int:
        """Estimate how many runs fit at once, from CPUs alone; at least 1.

        Every run counts with the most threads and the most nodes that any of them asks for.
        """
        threads, most_nodes = max(each.threads for each in needed), max(each.nodes for each in needed)
        return max(1, sum(int(node.get("CPU", 0.0) // threads) for node in self.nodes) // most_nodes)

    def _able_nodes(self, needed: Resources) -> list[Node]:
        """Return the nodes with enough GPUs and memory; a run may request more threads than a node has CPUs."""
        memory = needed.memory_mb * 2**20
        return [
            each for each in self.nodes if each.get("GPU", 0.0) >= needed.gpus and each.get("memory", 0.0) >= memory
        ]


NOWHERE = Cluster("", "", (), {})  # before Ray has answered
