"""What verl imports at its own start: registers the platform and the rollout engine, and makes the repairs."""

from __future__ import annotations

import os

from verl.plugin.platform.platform_manager import get_platform, set_platform
from verl.workers.rollout import base, replica

from plat.trainer.verl.cpu.platform import CpuPlatform
from plat.trainer.verl.cpu.repairs import repair


def _replica() -> type:
    from plat.trainer.verl.cpu.rollout import HFReplica

    return HFReplica


def register_rollout() -> None:
    """Make `rollout.name=hf` known to verl."""
    base._ROLLOUT_REGISTRY["hf", "async"] = "plat.trainer.verl.cpu.rollout.HFAdapter"
    replica.RolloutReplicaRegistry.register("hf", _replica)


def use_platform() -> None:
    """Where the environment asks for the CPU: make it the platform, also in a process that had imported verl before."""
    if os.environ.get("VERL_PLATFORM") == "cpu" and get_platform().device_name != "cpu":
        set_platform(CpuPlatform())


register_rollout()
repair()
use_platform()
