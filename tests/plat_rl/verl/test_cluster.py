"""What a run tells its Ray, and what it does about one that is too small or was left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from plat.errors import RunError
from plat_rl.verl.machines import guard, private_cluster
from plat_rl.verl.settings.verl_config import VerlRunConfig

Make = Callable[..., VerlRunConfig]


def test_scratch_folders_of_killed_runs_are_removed_and_those_of_living_ones_stay() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = Path(f"/tmp/{guard.SCRATCH}{gone.pid}-left")
    mine = Path(f"/tmp/{guard.SCRATCH}{os.getpid()}-mine")
    left.mkdir()
    mine.mkdir()
    made = Path(guard.scratch_folder())
    try:
        assert not left.exists() and mine.exists() and made.is_dir()
        assert len(str(made)) < 40, "names of sockets below it must stay short"
    finally:
        shutil.rmtree(mine)
        shutil.rmtree(made)


def test_handlers_of_signals_are_those_of_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with private_cluster._keeping_signal_handlers():
        signal.signal(signal.SIGTERM, lambda number, frame: None)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_request_to_end_while_ray_starts_goes_to_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it starts, Ray has a handler of its own, which ends the process."""

    def start(**options: object) -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        signal.raise_signal(signal.SIGTERM)

    asked = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    monkeypatch.setattr("ray.init", start)
    try:
        with pytest.raises(RunError, match="asked to end while Ray started") as caught:
            private_cluster._start_ray({})
    finally:
        signal.signal(signal.SIGTERM, before)
    assert asked == [signal.SIGTERM] and caught.value.failure_class == "node"


def test_on_the_cpu_every_process_loads_the_plug_in_and_on_gpus_only_for_the_rollout_hf(make_config: Make) -> None:
    config = make_config()
    assert private_cluster.environment(config)["VERL_PLATFORM"] == "cpu"
    config.device, config.dtype = "cuda", "bfloat16"
    variables = private_cluster.environment(config)
    assert "VERL_PLATFORM" not in variables
    assert variables["VERL_USE_EXTERNAL_MODULES"] == "plat_rl.verl.machines.loopback", "on one machine"
    config.verl.nodes = 2
    assert "VERL_USE_EXTERNAL_MODULES" not in private_cluster.environment(config)
    config.verl.rollout = "hf"
    variables = private_cluster.environment(config)
    assert variables["VERL_USE_EXTERNAL_MODULES"] == "plat_rl.verl.cpu.register"
    assert "VERL_PLATFORM" not in variables and "VERL_ENGINE_DEVICE" not in variables


@pytest.mark.parametrize("device", [("device=cpu",), ("device=cuda", "dtype=bfloat16")])
@pytest.mark.parametrize("library", ["GLOO", "NCCL"])
def test_only_processes_of_one_machine_talk_over_the_loopback(
    make_config: Make, device: tuple[str, ...], library: str
) -> None:
    assert private_cluster.environment(make_config(*device))[f"{library}_SOCKET_IFNAME"] == "lo"
    assert f"{library}_SOCKET_IFNAME" not in private_cluster.environment(make_config("verl.nodes=2", *device))


def test_with_gpus_ray_is_told_of_the_cpus_that_slurm_gave(make_config: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "5")
    config = make_config("verl.workers=2")
    assert private_cluster._cpus(config) == 14, "on the CPU they are slots"
    config.device, config.dtype = "cuda", "bfloat16"
    assert private_cluster._cpus(config) == 5
    monkeypatch.delenv("SLURM_CPUS_ON_NODE")
    assert private_cluster._cpus(config) == 14


def test_a_run_that_was_given_too_few_machines_is_refused_before_ray_starts(
    make_config: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.delenv("SLURM_JOB_NUM_NODES", raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with (
        pytest.raises(RunError, match="needs 2 machines, and there is 1"),
        private_cluster.ray_cluster(make_config("verl.nodes=2")),
    ):
        pass
    assert not ray.is_initialized()
