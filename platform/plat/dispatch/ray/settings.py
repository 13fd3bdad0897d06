"""What `cluster.KEY=VALUE` says about Ray. None of it is part of a run's identity."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plat.errors import SpecError
from plat.spec.yaml_scalar import scalar
from plat.suggest import mend
from plat.trainer.resources import Resources

LOCAL = "local"  # the address that stands for a Ray of our own on this machine
AUTO = "auto"  # and for the cluster of which this machine is a node


@dataclass(frozen=True)
class RaySettings:
    """How Ray is used. 0 means: as the trainer states it, or as it is judged here.

    address         HOST:PORT of a running cluster, or "local" for a Ray of our own on this machine
    threads         CPUs that each run asks for
    gpus            GPUs that each run asks for
    memory          MiB of memory that each run asks for
    runs_per_task   so many short runs share one actor, which does them one after another
    elastic         the cluster starts nodes by itself: wait for what no node has now, instead of refusing it
    refresh         seconds between two questions to Ray
    connect_within  seconds that Ray has to answer the first time
    """

    address: str = LOCAL
    threads: int = 0
    gpus: int = 0
    memory: int = 0
    runs_per_task: int = 0
    elastic: bool = False
    refresh: float = 2.0
    connect_within: float = 180.0

    @property
    def is_local(self) -> bool:
        return self.address == LOCAL

    def resources(self, stated: Mapping[str, Any]) -> Resources:
        """What a run asks for: as its trainer states it, changed by these settings."""
        needed = Resources.of(stated)
        return dataclasses.replace(
            needed,
            threads=self.threads or max(1, needed.threads),
            gpus=self.gpus or needed.gpus,
            memory_mb=self.memory or needed.memory_mb,
        )


def read_settings(cluster: Sequence[str]) -> RaySettings:
    """The settings that the command line gives; the address else from RAY_ADDRESS. SpecError for a wrong one."""
    values: dict[str, Any] = {"address": os.environ.get("RAY_ADDRESS", "").strip() or LOCAL}
    where = {"address": "the environment variable RAY_ADDRESS"}
    types = {field.name: type(field.default) for field in dataclasses.fields(RaySettings)}
    for text in cluster:
        key, _, value = text.partition("=")
        where[key.removeprefix("cluster.")] = f"the command line ({text})"
        if key == "cluster":
            raise SpecError(
                "profiles are for SLURM; Ray takes cluster.KEY=VALUE",
                where=f"the command line ({text})",
                mend="name the cluster with cluster.address=HOST:PORT, or leave it out for a Ray on this machine",
            )
        key = key.removeprefix("cluster.")
        if key not in types:
            raise SpecError(
                f"Ray has no option {key!r}", where=f"the command line ({text})", mend=mend(key, types, "options")
            )
        values[key] = _checked(key, value if key == "address" else scalar(value), types[key], where[key])
    _check_address(values["address"], where["address"])
    return RaySettings(**values)


def _checked(key: str, value: Any, kind: type, where: str) -> Any:
    right = isinstance(value, kind) or (kind is float and isinstance(value, int))
    if kind in (int, float):
        right = right and not isinstance(value, bool) and 0 <= value < 1e9
    if not right:
        wanted = {int: "a whole number of at least 0", float: "a number of seconds", bool: "true or false"}
        raise SpecError(
            f"{key} must be {wanted.get(kind, 'a text')}, not {value!r}", where=where, mend="docs/ray.md explains it"
        )
    return value


def _check_address(address: str, where: str) -> None:
    host, _, port = address.rpartition(":")
    if address not in (LOCAL, AUTO) and not (host and port.isdigit() and "/" not in address):
        raise SpecError(
            f"{address!r} is not the address of a Ray cluster",
            where=where,
            mend="give HOST:PORT as `ray start --head` prints it (usually port 6379), `auto`, or `local`",
        )
