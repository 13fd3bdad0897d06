"""What a run tells its Ray, and what it does about one that is too small or was left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plat.errors import RunError
from plat.trainer.verl import cluster
from plat.trainer.verl.config import VerlRunConfig

Make = Callable[..., VerlRunConfig]


def test_scratch_folders_of_killed_runs_are_removed_and_those_of_living_ones_stay() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = Path(f"/tmp/{cluster.SCRATCH}{gone.pid}-left")
    mine = Path(f"/tmp/{cluster.SCRATCH}{os.getpid()}-mine")
    left.mkdir()
    mine.mkdir()
    made = Path(cluster._scratch())
    try:
        assert not left.exists() and mine.exists() and made.is_dir()
        assert len(str(made)) < 40, "names of sockets below it must stay short"
    finally:
        shutil.rmtree(mine)
        shutil.rmtree(made)


def test_handlers_of_signals_are_those_of_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with cluster._keeping_signal_handlers():
        signal.signal(signal.SIGTERM, lambda number, frame: None)
    assert signal.getsignal(signal.SIGTERM) is before


def test_on_the_cpu_every_process_loads_the_plug_in_and_on_gpus_none_does(make_config: Make) -> None:
    config = make_config()
    assert cluster.environment(config)["VERL_PLATFORM"] == "cpu"
    config.device, config.dtype = "cuda", "bfloat16"
    variables = cluster.environment(config)
    assert "VERL_PLATFORM" not in variables and "VERL_USE_EXTERNAL_MODULES" not in variables


@pytest.mark.parametrize(("resources", "fits"), [({"GPU": 2.0, "CPU": 6.0}, True), ({"GPU": 2.0, "CPU": 5.0}, False)])
def test_a_cluster_that_is_too_small_is_refused_before_verl_waits_for_it(
    make_config: Make, monkeypatch: pytest.MonkeyPatch, resources: dict[str, Any], fits: bool
) -> None:
    import ray

    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": resources}])
    config = make_config("verl.workers=2")
    if fits:
        cluster._check_room(config)
        return
    with pytest.raises(RunError, match=r"0 node.s. with 2 GPUs and 6 CPUs"):
        cluster._check_room(config)
