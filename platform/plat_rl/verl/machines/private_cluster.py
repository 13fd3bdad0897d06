"""Start the Ray cluster of a run and end it with the run, or join the cluster that RAY_ADDRESS names.

A private cluster has its head here and a node on each other machine of the run (`plat.trainer.allocation`). Its
processes are children of this process or end with it. If this process is killed, its guard
(`plat_rl.verl.machines.guard`) ends them and removes the scratch folder.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from typing import Any

import psutil

from plat.errors import PlatError, RunError
from plat.processes.own_process import handling
from plat.trainer.allocation import command_on_others, require_machines
from plat.trainer.private_ray import private_ray
from plat.units import counted
from plat_rl.verl.cpu import ENVIRONMENT
from plat_rl.verl.machines.guard import guarded, scratch_folder
from plat_rl.verl.machines.node import OBJECT_STORE
from plat_rl.verl.settings.composition import compose
from plat_rl.verl.settings.models import (
    CPUS_BESIDE,
    CPUS_OF_A_WORKER,
    ModelFiles,
    reservation_of,
    wait_for_nodes,
    workers,
)
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.settings.verl_overrides import rollout_engine

EXTERNAL = "VERL_USE_EXTERNAL_MODULES"  # names the modules that verl imports in each of its processes
HEAD = {"gcs_server", "raylet"}  # processes of the head
JOIN_WITHIN = 300.0  # seconds for the other nodes to start Ray
LEAVE_WITHIN = 20.0  # seconds for the other nodes to end
NOTICED_WITHIN = 10.0  # seconds until the loss of a node shows after a worker failed


def environment(config: VerlRunConfig) -> dict[str, str]:
    """Return the environment variables that every process of the run needs before it imports verl."""
    variables = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFER_QUEUE_ENABLE": "1",
        "VERL_LOGGING_LEVEL": "WARN",
    }
    if config.device == "cpu":
        threads = str(config.threads)
        variables |= ENVIRONMENT | {"OMP_NUM_THREADS": threads, "TQ_NUM_THREADS": threads}
    elif rollout_engine(config) == "hf":
        variables[EXTERNAL] = ENVIRONMENT[EXTERNAL]
    if config.verl.nodes == 1:
        variables |= {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
        variables[EXTERNAL] = ",".join(filter(None, [variables.get(EXTERNAL), "plat_rl.verl.machines.loopback"]))
    return variables


def import_plug_in() -> None:
    """Import the external modules of verl, for a process that imported verl before they were named."""
    for name in filter(None, os.environ.get(EXTERNAL, "").split(",")):
        import_module(name)


@contextmanager
def _keeping_signal_handlers() -> Iterator[None]:
    """Restore the handlers of SIGTERM and SIGINT after the block.

    Ray's own handler of SIGTERM ends the process; the platform's asks the run to save and stop.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        with suppress(ValueError):  # not the main thread: nothing was installed
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def ray_cluster(config: VerlRunConfig) -> Iterator[None]:
    """Provide a Ray cluster for the run's processes during the block: a private one, which ends with it.

    If this process has joined a Ray, that one is used. On GPUs, RAY_ADDRESS may name one. Such a Ray continues after
    the block. Variables that are set in `os.environ` (`environment`) also stay.

    Raises RunError if the run has too few machines, or Ray does not start, has too few nodes, GPUs or CPUs, or is used
    by another run. If the block fails because a part of a private cluster was lost, the error has the class `node`.
    """
    import ray

    os.environ.update(environment(config))
    if config.device == "cpu":  # Ray checks that declared GPUs are visible; these are slots
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(workers(config))))
    address = os.environ.get("RAY_ADDRESS")
    if ray.is_initialized() or (address and config.device != "cpu"):
        if not ray.is_initialized():
            _start_ray({"address": address, **_runtime(config)})
        refuse_company()
        wait_for_nodes(reservation_of(config), ray.nodes, within=0.0)
        yield
    else:
        with _ray_of_our_own(config):
            yield


@contextmanager
def _ray_of_our_own(config: VerlRunConfig) -> Iterator[None]:
    """Start a private cluster with a node on each machine of the run, and end it with the block."""
    import ray

    require_machines(config.verl.nodes)
    with guarded(scratch_folder()) as folder, ExitStack() as stack:
        elsewhere = stack.enter_context(private_ray(config.verl.nodes))
        head = {"address": "local", "num_cpus": _cpus(config), "include_dashboard": False, "_temp_dir": folder}
        if config.device == "cpu":
            head |= {"num_gpus": workers(config), "object_store_memory": OBJECT_STORE}
        _start_ray(head | _runtime(config))
        stack.callback(ray.shutdown)
        others = None
        if config.verl.nodes > 1:
            others = stack.enter_context(_other_nodes(config, ray.get_runtime_context().gcs_address, elsewhere))
        waits = JOIN_WITHIN if others else 0.0
        wait_for_nodes(
            reservation_of(config), ray.nodes, waits, still_coming=lambda: others is None or others.poll() is None
        )
        try:
            with _noticing_the_end(others):
                yield
        except Exception as error:
            if not isinstance(error, PlatError) and _is_lost(others):
                raise RunError("Ray, or a node of the run, was lost", failure_class="node") from error
            raise


@contextmanager
def _other_nodes(
    config: VerlRunConfig, address: str, elsewhere: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start Ray on the other machines of the run, joined to the head at `address`; end it with the block.

    elsewhere   the environment variables of the processes on those machines
    """
    program = [sys.executable, "-P", "-m", "plat_rl.verl.machines.node", address, str(_cpus(config))]
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


@contextmanager
def _noticing_the_end(others: subprocess.Popen[bytes] | None) -> Iterator[None]:
    """Raise ConnectionError in the block NOTICED_WITHIN seconds after the other nodes have ended.

    Without their part of the queue of batches verl waits, without end or for many minutes.
    """
    if others is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    done = threading.Event()

    def interrupt(number: int, frame: Any) -> None:
        raise ConnectionError("the other nodes of the run have ended")

    def watch() -> None:
        while others.poll() is None and not done.wait(1.0):
            pass
        while not done.wait(NOTICED_WITHIN):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    with handling(interrupt, signal.SIGUSR1):
        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            done.set()


def _is_lost(others: subprocess.Popen[bytes] | None) -> bool:
    """Return True if the head of the run's Ray here, or the process that started the other nodes, has ended.

    Waits up to `NOTICED_WITHIN` seconds, because the failure of a worker is often seen before the loss of its node.
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
    """Raise RunError if another run of verl uses this Ray cluster: the two would read each other's batches."""
    from ray.util import list_named_actors

    # TransferQueue has one controller for a whole cluster.
    taken = {"name": "TransferQueueController", "namespace": "transfer_queue"}
    if taken in list_named_actors(all_namespaces=True):
        raise RunError(
            "another run of verl uses this Ray cluster, and only one can at a time",
            where="RAY_ADDRESS",
            fix="unset RAY_ADDRESS and use `--on ray` (separate nodes for each run), or wait until the other ends",
        )


def _start_ray(options: dict[str, Any]) -> None:
    """Start Ray, or connect to it. Raises RunError of the class `node`, which is retried, if Ray does not answer.

    On a SIGTERM meanwhile, shuts Ray down, passes the signal to the platform's handler, and raises RunError.
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
                fix="look whether this machine is overloaded, and whether RAY_ADDRESS names a cluster that runs",
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


def _cpus(config: VerlRunConfig) -> int:
    """Return the CPUs of a node for Ray: with GPUs the number from SLURM, otherwise as many as verl reserves."""
    given = os.environ.get("SLURM_CPUS_ON_NODE", "")
    if config.device != "cpu" and given.isdigit():
        return int(given)
    return CPUS_OF_A_WORKER * workers(config) + CPUS_BESIDE


# Start verl's workers and servers, and end them with a block.


@contextmanager
def running_trainer(
    config: VerlRunConfig, files: ModelFiles, say: Callable[[str], None] = lambda text: None
) -> Iterator[Any]:
    """Yield a started `plat_rl.verl.update.trainer.Trainer` with the weights in `files`.

    Its processes end with the block, or, on a cluster that was joined (`ray_cluster`), with this process.

    say   called with a short text before each stage; the start takes half a minute or more
    """
    say("starting Ray" if config.verl.nodes == 1 else f"starting Ray on {config.verl.nodes} nodes")
    with ray_cluster(config):
        say("importing verl")
        import transfer_queue as tq

        import_plug_in()
        from plat_rl.verl.update.trainer import Trainer

        composed = compose(config, files.path)
        tq.init(composed.transfer_queue)
        try:
            training = counted(workers(config) * config.verl.nodes, "training worker")
            say(f"starting {training} and the rollout engine {rollout_engine(config)}")
            trainer = Trainer(composed, config)
            trainer.start()
            yield trainer
        finally:
            tq.close()
