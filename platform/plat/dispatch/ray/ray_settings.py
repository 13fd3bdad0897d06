"""The settings of Ray from `cluster.KEY=VALUE`. None of them is part of a run's identity."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plat.dispatch.gpu_setting import gpus_per_run
from plat.errors import SpecError
from plat.spec.reading.yaml_scalar import option_scalar
from plat.suggest import suggest
from plat.trainer.resources import Resources

LOCAL = "local"  # the address of a private Ray on this machine
AUTO = "auto"  # the address of the cluster that this machine is a node of


@dataclass(frozen=True)
class RaySettings:
    """Settings of Ray. 0 means: the trainer's value, or a value computed here.

    address         HOST:PORT of a running cluster, "auto" for the one of this machine, "local" for a private Ray
    threads         CPUs of each run
    gpus            GPUs of each run, or the share of one GPU
    memory          MiB of memory of each run
    runs_per_task   number of short runs that share one trial, which executes them one after another
    elastic         the cluster starts nodes by itself: wait for resources that no node has now, instead of refusing
    refresh         seconds between two questions to Ray
    connect_within  seconds that Ray has to answer the first time, and again after it stopped answering
    """

    address: str = LOCAL
    threads: int = 0
    gpus: float = 0
    memory: int = 0
    runs_per_task: int = 0
    elastic: bool = False
    refresh: float = 2.0
    connect_within: float = 180.0

    @property
    def is_local(self) -> bool:
        return self.address == LOCAL

    def resources(self, stated: Mapping[str, Any]) -> Resources:
        """Return the resources of a run: those of its trainer, changed by these settings."""
        needed = Resources.of(stated)
        return dataclasses.replace(
            needed,
            threads=self.threads or max(1, needed.threads),
            gpus=self.gpus or needed.gpus,
            memory_mb=self.memory or needed.memory_mb,
        )


def read_settings(cluster: Sequence[str]) -> RaySettings:
    """Return the settings of the command line; SpecError for a wrong one. RAY_ADDRESS is the default address."""
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
                fix="name the cluster with cluster.address=HOST:PORT, or leave it out for a Ray on this machine",
            )
        key = key.removeprefix("cluster.")
        if key not in types:
            raise SpecError(
                f"Ray has no option {key!r}", where=f"the command line ({text})", fix=suggest(key, types, "options")
            )
        if key == "gpus":
            values[key] = gpus_per_run(value, where[key])
        else:
            given = value if key == "address" else option_scalar(value, where[key])
            values[key] = _checked(key, given, types[key], where[key])
    _check_address(values["address"], where["address"])
    return RaySettings(**values)


def _checked(key: str, value: Any, kind: type, where: str) -> Any:
    right = isinstance(value, kind) or (kind is float and isinstance(value, int))
    if kind in (int, float):
        right = right and not isinstance(value, bool) and 0 <= value < 1e9
    if not right:
        wanted = {int: "a whole number of at least 0", float: "a number of seconds", bool: "true or false"}
        raise SpecError(
            f"{key} must be {wanted.get(kind, 'a text')}, not {value!r}", where=where, fix="docs/ray.md explains it"
        )
    return value


def _check_address(address: str, where: str) -> None:
    host, _, port = address.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) < 2**16
    if address not in (LOCAL, AUTO) and not (host and is_port and "/" not in address):
        raise SpecError(
            f"{address!r} is not the address of a Ray cluster",
            where=where,
            fix="give HOST:PORT as `ray start --head` prints it (usually port 6379), `auto`, or `local`",
        )
