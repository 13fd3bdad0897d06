"""The Ray that a run uses: one of its own, started here and ended with the run, or the cluster that it runs in.

A run's own Ray lives in a scratch folder with a short name (names of sockets must be short). Its processes are children
of this one, so whoever ends the run's processes ends them, too. When this process is killed, its guard
(`plat.trainer.verl.guard`) ends them and removes the folder.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from plat.errors import RunError
from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.cpu import ENVIRONMENT
from plat.trainer.verl.guard import guarded
from plat.trainer.verl.models import workers
from plat.trainer.verl.overrides import rollout_engine

SCRATCH = "plat-verl-"
OBJECT_STORE = 300_000_000  # bytes of shared memory for a Ray of one's own on the CPU
CPUS_OF_A_WORKER = 3  # verl reserves so many beside each GPU, and waits for them without end
CPUS_BESIDE = 8  # for servers, agent workers and TransferQueue


def environment(config: VerlRunConfig) -> dict[str, str]:
    """The variables that every process of the run needs before it imports verl."""
    variables = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFER_QUEUE_ENABLE": "1",
        "VERL_LOGGING_LEVEL": "WARN",
    }
    if config.device == "cpu":
        threads = str(config.threads)
        variables |= ENVIRONMENT | {"OMP_NUM_THREADS": threads, "TQ_NUM_THREADS": threads, "GLOO_SOCKET_IFNAME": "lo"}
    elif rollout_engine(config) == "hf":
        variables["VERL_USE_EXTERNAL_MODULES"] = ENVIRONMENT["VERL_USE_EXTERNAL_MODULES"]
    return variables


def import_plug_in() -> None:
    """Load what verl itself loads at its own start, for a process that had imported verl before."""
    for name in filter(None, os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(",")):
        import_module(name)


@contextmanager
def _keeping_signal_handlers() -> Iterator[None]:
    """Ray's own handler of SIGTERM would end the process; the platform's asks the run to save and stop."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        with suppress(ValueError):  # not the main thread: nothing was installed
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def ray_cluster(config: VerlRunConfig) -> Iterator[None]:
    """A Ray in which the run's processes live. RunError when the cluster that it joins is too small."""
    import ray

    os.environ.update(environment(config))
    if config.device == "cpu":  # Ray wants to see the GPUs that it is told of; these are slots
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(workers(config))))
    address = os.environ.get("RAY_ADDRESS")
    joins = ray.is_initialized() or (address is not None and config.device != "cpu")
    with nullcontext() if joins else guarded(_scratch()) as scratch:
        if not ray.is_initialized():
            _start_ray(_own(config, scratch) if scratch else _joined(config, str(address)))
        try:
            _check_room(config)
            yield
        finally:
            if scratch:
                ray.shutdown()


def _start_ray(options: dict[str, Any]) -> None:
    """RunError, of the class that is tried again, when Ray does not answer: it gives its daemons half a minute."""
    import ray

    with _keeping_signal_handlers():
        try:
            ray.init(**options)
        except Exception as error:
            raise RunError(
                f"Ray did not start, or cannot be reached: {error}",
                failure_class="node",
                mend="look whether this machine is overloaded, and whether RAY_ADDRESS names a cluster that runs",
            ) from error


def _scratch() -> str:
    """A folder for a Ray of one's own; those of processes that were killed are removed."""
    for folder in Path("/tmp").glob(f"{SCRATCH}*"):
        owner = folder.name.removeprefix(SCRATCH).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-", dir="/tmp")


def _runtime(config: VerlRunConfig) -> dict[str, Any]:
    return {
        "runtime_env": {"env_vars": environment(config)},
        "configure_logging": False,
        "logging_level": logging.ERROR,
    }


def _own(config: VerlRunConfig, scratch: str) -> dict[str, Any]:
    """How to start a Ray on this machine. Its numbers of CPUs and GPUs are logical on a machine without GPUs."""
    count = workers(config)
    options: dict[str, Any] = {
        "address": "local",
        "num_cpus": CPUS_OF_A_WORKER * count + CPUS_BESIDE,
        "include_dashboard": False,
        "_temp_dir": scratch,
        **_runtime(config),
    }
    if config.device == "cpu":
        options |= {"num_gpus": count, "object_store_memory": OBJECT_STORE, "_node_ip_address": "127.0.0.1"}
    return options


def _joined(config: VerlRunConfig, address: str) -> dict[str, Any]:
    return {"address": address, **_runtime(config)}


def _check_room(config: VerlRunConfig) -> None:
    """RunError where verl would wait for ever: too few nodes with the GPUs and CPUs that it reserves."""
    import ray

    count = workers(config)
    needed = {"GPU": count, "CPU": CPUS_OF_A_WORKER * count}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    fitting = [have for have in nodes if all(have.get(name, 0) >= wanted for name, wanted in needed.items())]
    if len(fitting) < config.verl.nodes:
        raise RunError(
            f"the Ray cluster has {len(fitting)} node(s) with {needed['GPU']} GPUs and {needed['CPU']} CPUs, "
            f"the run needs {config.verl.nodes}",
            mend="ask for more nodes, GPUs or CPUs, or set verl.workers; for several nodes start Ray on them, and set "
            "RAY_ADDRESS",
        )
