"""The Ray that a run uses: one of its own, started here and ended with the run, or the cluster that it runs in.

A Ray of its own has a node on each machine that the run was given (`plat.trainer.allocation`): the head is here, and
the others join it. It lives in a scratch folder with a short name (names of sockets must be short). Its processes are
children of this one, or end when this one ends, so whoever ends the run's processes ends them, too. When this process
is killed, its guard (`plat.trainer.verl.guard`) ends them and removes the folder.

A run joins another Ray only where RAY_ADDRESS asks for it, and only one run at a time can: TransferQueue has one
controller for a whole cluster. `--on ray` therefore gives each run machines, on which it starts a Ray of its own.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from typing import Any

import psutil

from plat.errors import PlatError, RunError
from plat.trainer.allocation import command_on_others, require_machines
from plat.trainer.private_ray import private_ray
from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.cpu import ENVIRONMENT
from plat.trainer.verl.guard import guarded
from plat.trainer.verl.models import workers
from plat.trainer.verl.node import OBJECT_STORE
from plat.trainer.verl.overrides import rollout_engine
from plat.trainer.verl.room import CPUS_BESIDE, CPUS_OF_A_WORKER, Room, needed_room, wait_for_room
from plat.trainer.verl.scratch import scratch_folder

EXTERNAL = "VERL_USE_EXTERNAL_MODULES"  # what verl imports in each of its processes
HEAD = {"gcs_server", "raylet"}  # the processes without which there is no Ray
JOIN_WITHIN = 300.0  # seconds that the other nodes of a run have to start Ray
LEAVE_WITHIN = 20.0  # seconds that they have to end
NOTICED_WITHIN = 10.0  # seconds in which it is noticed that a node is lost whose workers have ended


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
        variables |= ENVIRONMENT | {"OMP_NUM_THREADS": threads, "TQ_NUM_THREADS": threads}
        if config.verl.nodes == 1:
            variables["GLOO_SOCKET_IFNAME"] = "lo"
    elif rollout_engine(config) == "hf":
        variables[EXTERNAL] = ENVIRONMENT[EXTERNAL]
    if config.verl.nodes == 1:
        variables[EXTERNAL] = ",".join(filter(None, [variables.get(EXTERNAL), "plat.trainer.verl.loopback"]))
    return variables


def import_plug_in() -> None:
    """Load what verl itself loads at its own start, for a process that had imported verl before."""
    for name in filter(None, os.environ.get(EXTERNAL, "").split(",")):
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
    """A Ray in which the run's processes live.

    RunError when it has too little room, when its other nodes do not come, or when another run uses it; of the class
    `node` when the block fails because a part of it was lost.
    """
    import ray

    os.environ.update(environment(config))
    if config.device == "cpu":  # Ray wants to see the GPUs that it is told of; these are slots
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(workers(config))))
    address = os.environ.get("RAY_ADDRESS")
    if ray.is_initialized() or (address and config.device != "cpu"):
        if not ray.is_initialized():
            _start_ray({"address": address, **_runtime(config)})
        refuse_company()
        wait_for_room(_room(config), ray.nodes, within=0.0)
        yield
    else:
        with _ray_of_our_own(config):
            yield


@contextmanager
def _ray_of_our_own(config: VerlRunConfig) -> Iterator[None]:
    """A Ray whose head is here, with a node on each machine of the run; ended with the block."""
    import ray

    require_machines(config.verl.nodes)
    with guarded(scratch_folder()) as folder, ExitStack() as stack:
        elsewhere = stack.enter_context(private_ray(config.verl.nodes))
        _start_ray(_own(config, folder))
        stack.callback(ray.shutdown)
        others = None
        if config.verl.nodes > 1:
            others = stack.enter_context(_other_nodes(config, ray.get_runtime_context().gcs_address, elsewhere))
        waits = JOIN_WITHIN if others else 0.0
        wait_for_room(_room(config), ray.nodes, waits, still_coming=lambda: others is None or others.poll() is None)
        try:
            yield
        except Exception as error:
            if not isinstance(error, PlatError) and _is_lost(others):
                raise RunError("Ray, or a node of the run, was lost", failure_class="node") from error
            raise


def _room(config: VerlRunConfig) -> Room:
    return needed_room(config.verl.nodes, workers(config))


@contextmanager
def _other_nodes(
    config: VerlRunConfig, address: str, elsewhere: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Ray on the other machines of the run, which joins the head at this address and leaves with the block.

    `elsewhere` is the environment in which it is started there.
    """
    program = [sys.executable, "-m", "plat.trainer.verl.node", address, str(_cpus(config))]
    if config.device == "cpu":
        program.append(str(workers(config)))
    process = subprocess.Popen(command_on_others(config.verl.nodes - 1, program), stdin=subprocess.PIPE, env=elsewhere)
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(LEAVE_WITHIN)
        process.kill()
        process.wait()


def _is_lost(others: subprocess.Popen[bytes] | None) -> bool:
    """Whether a part of the run's Ray has ended: its head here, or a node, with which what started the others ends.

    A worker that misses another one fails first; that a whole node is gone is noticed a moment later.
    """
    until = time.monotonic() + NOTICED_WITHIN
    while time.monotonic() < until:
        below = psutil.Process().children(recursive=True)
        if not HEAD <= {process.name() for process in below if process.status() != psutil.STATUS_ZOMBIE}:
            return True
        if others is not None and others.poll() is not None:
            return True
        time.sleep(0.5)
    return False


def refuse_company() -> None:
    """RunError where another run of verl uses this Ray: the two would read each other's batches."""
    from ray.util import list_named_actors

    taken = {"name": "TransferQueueController", "namespace": "transfer_queue"}
    if taken in list_named_actors(all_namespaces=True):
        raise RunError(
            "another run of verl uses this Ray cluster, and only one can at a time",
            where="RAY_ADDRESS",
            mend="leave RAY_ADDRESS to `--on ray`, which gives each run nodes of its own, or wait until the other ends",
        )


def _start_ray(options: dict[str, Any]) -> None:
    """RunError, of the class that is tried again, when Ray does not answer: it gives its daemons half a minute.

    A SIGTERM meanwhile, with which Ray would end this process, goes to the handler of before, and Ray has not started.
    """
    import ray

    was_ended = False
    with _keeping_signal_handlers():
        try:
            ray.init(**options)
        except SystemExit:
            was_ended = True
        except Exception as error:
            raise RunError(
                f"Ray did not start, or cannot be reached: {error}",
                failure_class="node",
                mend="look whether this machine is overloaded, and whether RAY_ADDRESS names a cluster that runs",
            ) from error
    if was_ended:
        ray.shutdown()
        signal.raise_signal(signal.SIGTERM)
        raise RunError("the run was asked to end while Ray started", failure_class="node")


def _runtime(config: VerlRunConfig) -> dict[str, Any]:
    return {
        "runtime_env": {"env_vars": environment(config)},
        "configure_logging": False,
        "logging_level": logging.ERROR,
    }


def _own(config: VerlRunConfig, folder: str) -> dict[str, Any]:
    """How to start the head of a Ray on this machine."""
    options: dict[str, Any] = {
        "address": "local",
        "num_cpus": _cpus(config),
        "include_dashboard": False,
        "_temp_dir": folder,
        **_runtime(config),
    }
    if config.device == "cpu":
        options |= {"num_gpus": workers(config), "object_store_memory": OBJECT_STORE}
    return options


def _cpus(config: VerlRunConfig) -> int:
    """The CPUs of a node that Ray is told of: with GPUs what SLURM gave, elsewhere as many as verl reserves."""
    given = os.environ.get("SLURM_CPUS_ON_NODE", "")
    if config.device != "cpu" and given.isdigit():
        return int(given)
    return CPUS_OF_A_WORKER * workers(config) + CPUS_BESIDE
